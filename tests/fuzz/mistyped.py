"""Recipes as people type them: comments everywhere, braces, both quotings; and with slips whose fixes are certain."""

import random
import re

SECTIONS: dict[str, dict[str, str]] = {
    "model": {"model_name_or_path": "owner/model", "model_revision": "abc"},
    "dataset": {"path": "owner/data", "split": "train", "max_rows": "64"},
    "training": {
        "prompts_per_step": "16",
        "max_steps": "5",
        "learning_rate": "2.0e-6",
        "warmup_steps": "0",
        "save_steps": "500",
        "bf16": "true",
    },
    "grpo": {"num_generations": "8", "beta": "0.04", "loss_type": "dapo", "epsilon": "0.2"},
    "generation": {"max_completion_length": "1024", "temperature": "0.9", "top_p": "0.95", "min_p": "null"},
    "logging": {"logging_steps": "7"},
    "lora": {"r": "33", "lora_alpha": "66", "lora_dropout": "0.05"},
}
OTHER_NAMES = {
    "learning_rate": ("lr", "Learning-Rate", "learning_rtae"),
    "num_generations": ("num_generation", "group_size", "num_generatons"),
    "max_completion_length": ("max_new_tokens", "max_completion_lenght"),
    "prompts_per_step": ("prompts_per_steps", "prompt_per_step"),
    "max_steps": ("max_step",),
    "beta": ("kl_coef",),
    "r": ("lora_r",),
    "temperature": ("temprature",),
    "logging_steps": ("loging_steps",),
}
NUMBERS = {
    "16": ("'16'", '"16"', "16.0", "1.6e1"),
    "5": ("5.0", "'5'", "5,0", "'5,00'", "5e0"),
    "1024": ('"1024"', "1,024", "1024.0", "1.024", "'1,024'", "1 024"),
    "500": ("'500'", "5e2", "500,0", "500.000"),
    "8": ("8,0", "'8'", "8.0"),
    "0.04": ("'0.04'", '"4e-2"', "0,04"),
    "true": ("yes", "'true'", '"True"'),
    "dapo": ("DAPO", "'dapo'"),
}


class _Pen:
    """Writes a recipe; comments are numbered, touched: the words by which a line with a slip is known."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.number, self.touched = draw, 0, set[str]()

    def comment(self, share: float = 0.4) -> str:
        self.number += 1
        return f"# c{self.number}" if self.draw.random() < share else ""

    def entry(self, key: str, value: str, slips: float) -> tuple[str, str]:
        if self.draw.random() < slips and key in OTHER_NAMES:
            key = self.draw.choice(OTHER_NAMES[key])
            self.touched.add(key)
        if self.draw.random() < slips and value in NUMBERS:
            value = self.draw.choice(NUMBERS[value])
            self.touched.add(key)
        elif value.isalpha() and value not in ("true", "null") and self.draw.random() < 0.3:
            value = self.draw.choice(["'{}'", '"{}"']).format(value)
        if value == "null":
            value = self.draw.choice(["null", "~", "Null", ""])
        return key, value

    def lines(self, entries: list[tuple[str, str]], indent: str) -> list[str]:
        rows: list[str] = []
        for key, value in entries:
            while above := self.comment(0.25):
                rows.append(indent + above)
            beside = self.comment(0.3)
            rows.append(f"{indent}{key}:{' ' * self.draw.choice([1, 1, 3])}{value}{'   ' + beside if beside else ''}")
            if beside and self.draw.random() < 0.2:
                rows.append(f"{indent}      {self.comment(1)}")
            rows += self.draw.choice([[], [], [], [""], [self.draw.choice(["", "  "])]])
        return rows

    def section(self, name: str, entries: list[tuple[str, str]]) -> list[str]:
        style = self.draw.choice(["block", "block", "braces", "two lines"])
        if style == "block" or not entries:
            indent = " " * self.draw.choice([2, 2, 4])
            return [f"{name}:  {self.comment()}", *self.lines(entries, indent)]
        pairs = [f"{key}: {value}".rstrip() if value else f"{key}: null" for key, value in entries]
        pairs = [re.sub(r" ([0-9]+,[0-9]+)$", r" '\1'", pair) for pair in pairs]
        if style == "braces":
            space = self.draw.choice(["", " "])
            return [f"{name}: {{{space}{', '.join(pairs)}{space}}}   {self.comment()}"]
        half = self.draw.randrange(len(pairs))
        first, second = ", ".join(pairs[: half + 1]), ", ".join(pairs[half + 1 :])
        comma = "," if second else ""
        return [f"{name}: {{{first}{comma}  {self.comment()}", f"    {second}}}  {self.comment()}"]


def mistyped_recipe(draw: random.Random) -> tuple[str, set[str]]:
    """The text of a recipe, and words of which each line that a fix may touch has one."""
    pen, slips = _Pen(draw), draw.choice([0, 0.2, 0.5])
    sections = {
        name: [pen.entry(key, value, slips) for key, value in keys.items() if key in _NEEDED or draw.random() < 0.6]
        for name, keys in SECTIONS.items()
    }
    top: list[tuple[str, str]] = []
    for name in list(sections):
        for one in [one for one in sections[name] if draw.random() < slips / 4]:
            sections[name].remove(one)
            place = draw.choice([top, *(keys for other, keys in sections.items() if other != name)])
            place.append(one)
            # A line is touched where the key was, where it goes and where an empty section is written.
            pen.touched |= {
                one[0],
                *(key for other in sections.values() for key, _ in other),
                *(f"{other}:" for other in sections),
                "}",
            }
    rows = [["recipe: 1", *([pen.comment()])], ["name: case"], ["rewards: [{name: exact_match}]"]]
    rows += [pen.section(name, entries) for name, entries in sections.items() if entries or draw.random() < 0.3]
    rows += [pen.lines([one], "") for one in top]
    draw.shuffle(rows)
    text = "\n".join(row for part in [[pen.comment()], *rows] for row in part)
    text = text.replace("\n", draw.choice(["\n", "\n", "\n", "\r\n"])) + draw.choice(["", "\n"])
    return draw.choice(["", "", "", "\ufeff"]) + text, pen.touched


_NEEDED = ("model_name_or_path", "path", "prompts_per_step", "num_generations")
