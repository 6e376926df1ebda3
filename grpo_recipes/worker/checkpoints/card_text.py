"""Parts of a model card as Markdown that says what a recipe says, and steers nothing."""

import re
from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.metrics import figure, figures_of


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table of Markdown: the head, then the rows; each cell is one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(value: object) -> str:
    """A value as code."""
    return f"`{one_line(value).replace('`', '')}`"


def one_line(value: object) -> str:
    """A value on one line, without what steers a terminal."""
    return " ".join(_without_steering(str(value)).split())


def _cell(value: object) -> str:
    """A value in a table: code as it is, anything else as plain text."""
    text = one_line(value)
    return text.replace("|", "\\|") if text.startswith("`") and text.endswith("`") else inline(text)


def plain(value: object) -> str:
    """A text as a paragraph that is shown as it is written, with no tag, link, picture or heading of a recipe's own."""
    return re.sub(r"^([#>+=-])", r"\\\1", inline(one_line(value)))


def inline(text: str) -> str:
    """A text in which nothing is a tag, a link or emphasis."""
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text).replace("<", "&lt;")


def _without_steering(text: str) -> str:
    """Without the characters that turn the direction of writing or steer a terminal."""
    return "".join(one if one.isprintable() or one.isspace() else "\ufffd" for one in text)


def fenced(text: str, language: str) -> str:
    """The text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"


# What a model card says of the held-out rows.


def is_best(summary: Mapping[str, Any]) -> bool:
    """Whether a model is that of an earlier step than the last one of its run."""
    return summary.get("final_step") not in (None, summary["step"])


def held_out(summary: Mapping[str, Any]) -> list[str]:
    """The table of the held-out figures with their intervals, and how these were made."""
    evaluation = summary["evaluation"]
    heads = {"before": "before training", "after": "after training", "best": f"step {summary.get('final_step')}"}
    moments = [moment for moment in heads if moment in evaluation and (moment != "best" or is_best(summary))]
    if not moments:
        return []
    first, last = evaluation[moments[0]], evaluation[moments[-1]]
    columns = {heads[moment]: _texts(evaluation[moment], ".4f") for moment in moments}
    if (changed := last.get("change")) is not None:
        columns[f"change, {heads[moments[-1]]}"] = _texts(changed, "+.4f")
    names = dict.fromkeys(name for texts in columns.values() for name in texts)
    rows = [(name, *(texts.get(name, "none") for texts in columns.values())) for name in names]
    how = "most likely tokens" if first.get("greedy") else "sampled"
    many = f", {first['samples']} completions each" if first.get("samples") else ""
    parts = [f"Mean rewards on {first.get('count')} held-out rows{many}, {how}:", table(("", *columns), rows)]
    made = last.get("intervals")
    if made is not None:
        parts.append(
            f"In brackets the {made['level']:.0%} interval: {made['method']}, {made['resamples']} draws of seed "
            f"{made['seed']}. It is about other rows of this kind, not about another training."
        )
    if "passes" in last:
        passes = last["passes"]
        parts.append(f"A completion passes where {code(passes['reward'])} is {passes['at_least']:g} or more.")
    if "best" in moments:
        parts.append("The step was chosen by these same rows, so its figures are a little better than on others.")
    return parts


def _texts(event: Mapping[str, Any], shape: str) -> dict[str, str]:
    """The figures of an evaluation with their intervals, by name; those without a number are "none"."""
    known = {name: figure(value, ends, shape) for name, value, ends in figures_of(event, event.get("intervals") or {})}
    return {name: known.get(name, "none") for name in ("reward", *(event.get("rewards") or {}), *known)}
