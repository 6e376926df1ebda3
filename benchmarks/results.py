"""`make results`: trains SmolLM2 with the recipes of docs/results.md, three seeds each, and writes the page.

    python benchmarks/results.py [--only sums]

Needs build/real, which `make real` writes, and chromium for the pictures: without it they stay as they are. The sweeps
go to build/results, which keeps what was trained; a sweep that was stopped is resumed. Three hours of one core, 10 GiB
of memory. The untrained model also answers the held-out rows with other prompts, sampled as the evaluation samples.
"""

import argparse
import hashlib
import json
import random
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import chromium  # noqa: E402

from grpo_recipes.api import metrics  # noqa: E402
from grpo_recipes.contract.tasks.task_rows import make_rows  # noqa: E402

RECIPES, REAL, BUILT = ROOT / "benchmarks/results", ROOT / "build/real", ROOT / "build/results"
PAGE, TEMPLATE = ROOT / "docs/results.md", ROOT / "benchmarks/results_template.md"
SEEDS = (1, 2, 3)
EXAMPLES = 8
LARGEST, HELD_OUT, ROWS_SEED = 20, 64, 8
CALCULATOR = "You are a calculator. Answer with a number and nothing else."
Row = dict[str, Any]


class Result(NamedTuple):
    """A recipe. title: of its section. shown, asked: a solved row and a question as text, for the few-shot prompt.

    is_exact: a completion is right if it is the answer, and nothing else; else its last number is the answer.
    shortcut: an answer that needs no knowledge of the task, and its name.
    """

    title: str
    recipe: Path
    shown: Callable[[Row], str]
    asked: Callable[[Row], str]
    is_exact: bool
    shortcut: tuple[str, Callable[[Row], str]] | None = None


def _question(row: Row) -> str:
    return f"Question: {row['question'].strip()}\nAnswer:"


RESULTS = {
    "sums": Result(
        "Sums of two numbers up to 20",
        REAL / "smollm2.yaml",
        lambda row: row["question"].replace("?", row["answer"]) + "\n",
        lambda row: row["question"].removesuffix(" ?"),
        False,
    ),
    "count_primes": Result(
        "How many primes are there between two numbers up to 60",
        RECIPES / "count_primes.yaml",
        lambda row: f"{_question(row)} {row['answer']}\n\n",
        _question,
        True,
    ),
    "differences": Result(
        "Differences, in a sentence of a given form",
        RECIPES / "differences.yaml",
        lambda row: f"{row['question']} = {row['answer']}\n",
        lambda row: f"{row['question']} =",
        False,
    ),
    "number_sequence": Result(
        "The next number of a sequence",
        RECIPES / "number_sequence.yaml",
        lambda row: f"{_question(row)} {row['answer']}\n\n",
        _question,
        True,
        ("always the last number of the sequence", lambda row: re.findall(r"-?\d+", row["question"])[-1]),
    ),
}


def write_differences(folder: Path) -> None:
    """Rows of a - b without a negative result; 64 of the 210 are held out."""
    pairs = [(a, b) for a in range(1, LARGEST + 1) for b in range(1, a + 1)]
    random.Random(ROWS_SEED).shuffle(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("test", pairs[:HELD_OUT]), ("train", pairs[HELD_OUT:])):
        rows = [json.dumps({"question": f"{a} - {b}", "answer": str(a - b)}) + "\n" for a, b in part]
        (folder / f"{name}.jsonl").write_text("".join(rows))


def train(name: str, result: Result) -> None:
    """Runs the sweep of all seeds, or resumes it. Raises CalledProcessError if a run does not complete."""
    rewards = hashlib.sha256((REAL / "smollm2/rewards.py").read_bytes()).hexdigest()
    new = ["sweep", str(result.recipe), "--seeds", ",".join(map(str, SEEDS)), "--out", str(BUILT / name)]
    brings_code = "rewards.py" in result.recipe.read_text()
    _grpo_run(
        *(["sweep", str(BUILT / name)] if (BUILT / name).exists() else new + ["--allow-code", rewards] * brings_code)
    )


def _grpo_run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "grpo_recipes.cli.main", *words], cwd=ROOT, check=True)


class Run:
    """What a run folder holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = json.loads((folder / "plan.json").read_text())
        self.record = json.loads((folder / "run.json").read_text())

    def row(self, seed: int) -> str:
        """Its row of the table of seeds."""
        of = self.record["evaluation"]
        figures = [_with_interval(of[when], "1") for when in ("before", "after")]
        change = _with_interval(metrics(self.folder, "evaluation", frame=False)[-1]["change"], "1", "+")
        passes = " → ".join(f"{of[when]['pass_at']['4']:.2f}" for when in ("before", "after"))
        gib = max(phase["measured"] or 0 for phase in self.record["memory"].values()) / 2**30
        weights = hashlib.sha256((self.folder / "final/adapter_model.safetensors").read_bytes()).hexdigest()[:12]
        cpu = self.record["train_cpu_s"]
        return f"| {seed} | {' | '.join(figures)} | {change} | {passes} | {cpu:.0f} | {gib:.1f} | {weights} |"

    def solved(self, when: str) -> float:
        """The share of held-out completions that pass."""
        return float(self.record["evaluation"][when]["pass_at"]["1"])

    def rows(self, data: dict[str, Any]) -> list[Row]:
        """Rows of the plan's data, with question and answer."""
        if data["made"]:
            return list(make_rows(data["made"]["reasoning_gym"]).rows)
        return [json.loads(line) for line in Path(self.plan["folder"], data["path"]).read_text().splitlines()]


def _with_interval(figures: dict[str, Any], k: str, sign: str = "") -> str:
    low, high = figures["intervals"]["pass_at"][k]
    return f"{figures['pass_at'][k]:{sign}.3f} [{low:{sign}.2f}, {high:{sign}.2f}]"


class Untrained:
    """The model before any training, which answers other prompts."""

    def __init__(self) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(REAL / "smollm2/model")
        self._model = AutoModelForCausalLM.from_pretrained(REAL / "smollm2/model")

    def solves(self, run: Run, result: Result, prompts: list[str], held_out: list[Row]) -> str:
        """pass@1 and pass@4 of the held-out rows behind these prompts."""
        arguments = run.plan["arguments"]["GRPOConfig"]
        samples = run.plan["evaluation"]["samples"]
        set_seed(1)
        rows = []
        for prompt, row in zip(prompts, held_out, strict=True):
            tokens = self._tokenizer(prompt, return_tensors="pt").input_ids
            with torch.inference_mode():
                cache = self._model(tokens[:, :-1], use_cache=True).past_key_values  # once for all samples
                cache.batch_repeat_interleave(samples)
                sampled = self._model.generate(
                    tokens.repeat(samples, 1),
                    past_key_values=cache,
                    max_new_tokens=arguments["max_completion_length"],
                    do_sample=True,
                    temperature=arguments["temperature"],
                    top_k=0,
                )
            answers = self._tokenizer.batch_decode(sampled[:, tokens.shape[1] :], skip_special_tokens=True)
            rows.append([_is_right(answer, row["answer"], result.is_exact) for answer in answers])
        mean = statistics.fmean(statistics.fmean(row) for row in rows)
        return f"{mean:.3f} | {statistics.fmean(map(any, rows)):.2f}"

    def in_template(self, system: str, question: str) -> str:
        """A prompt in the chat template."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _is_right(completion: str, answer: str, is_exact: bool) -> bool:
    line = completion.strip().partition("\n")[0]
    if is_exact:
        return line.strip() == answer
    numbers = re.findall(r"\d+", line)
    return bool(numbers) and numbers[-1] == answer


def section(name: str, result: Result, untrained: Untrained) -> str:
    """The tables of a recipe."""
    runs = {seed: Run(BUILT / name / f"seed-{seed}") for seed in SEEDS}
    first = runs[SEEDS[0]]
    train_rows, held_out = first.rows(first.plan["data"]), first.rows(first.plan["evaluation"]["data"])
    before, after = ([run.solved(when) for run in runs.values()] for when in ("before", "after"))
    common, count = Counter(row["answer"] for row in train_rows).most_common(1)[0]
    always = statistics.fmean(row["answer"] == common for row in held_out)
    examples = "".join(map(result.shown, train_rows[:EXAMPLES]))
    prompts = {f"{EXAMPLES} solved rows in the prompt": [examples + result.asked(row) for row in held_out]}
    if first.plan["data"]["prompt_format"] == "conversational":
        asked = [untrained.in_template(CALCULATOR, row["question"]) for row in held_out]
        prompts[f"system prompt “{CALCULATOR}”"] = asked
    lines = [
        f"## {result.title}",
        "",
        f"`{result.recipe.relative_to(ROOT)}`: {len(train_rows)} training rows, {len(held_out)} held out; "
        f"{first.record['max_steps']} steps. Data {first.plan['data']['sha256'][:12]}, held out "
        f"{first.plan['evaluation']['data']['sha256'][:12]}.",
        "",
        f"![three seeds](results-{name}.webp)",
        "",
        "| seed | solved before | solved after | change | pass@4 | CPU s | GiB | weights |",
        "|---|---|---|---|---|---|---|---|",
        *(run.row(seed) for seed, run in runs.items()),
        f"| all | {statistics.fmean(before):.3f} | {statistics.fmean(after):.3f} ± {statistics.stdev(after):.3f} | "
        f"{statistics.fmean(after) - statistics.fmean(before):+.3f} | | | | |",
        "",
        "| without training | solved | pass@4 |",
        "|---|---|---|",
        *(f"| {how} | {untrained.solves(first, result, asked, held_out)} |" for how, asked in prompts.items()),
        f"| always “{common}”, the answer of {count} training rows | {always:.3f} | |",
    ]
    if result.shortcut is not None:
        how, answer = result.shortcut
        lines.append(f"| {how} | {statistics.fmean(answer(row) == row['answer'] for row in held_out):.3f} | |")
    lines.append("")
    return "\n".join(lines)


def picture(browser: chromium.Browser, name: str) -> None:
    """The report of three seeds, as it opens."""
    page = BUILT / f"{name}.html"
    _grpo_run("report", *(str(BUILT / name / f"seed-{seed}") for seed in SEEDS), "-o", str(page))
    browser.open(page, 1200, dark=False, height=900)
    (ROOT / f"docs/results-{name}.webp").write_bytes(browser.picture("webp", quality=75))


def main() -> None:
    """Trains what is not trained yet, then writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=RESULTS, help="only train this one; no page")
    only = parser.parse_args().only
    write_differences(BUILT / "rows")
    for name in only or RESULTS:
        train(name, RESULTS[name])
    if only:
        return
    untrained = Untrained()
    sections = [section(name, result, untrained) for name, result in RESULTS.items()]
    if chromium.executable() is not None:
        with chromium.browser() as browser:
            for name in RESULTS:
                picture(browser, name)
    PAGE.write_text(TEMPLATE.read_text().replace("{sections}", "\n".join(sections)), encoding="utf-8")


if __name__ == "__main__":
    main()
