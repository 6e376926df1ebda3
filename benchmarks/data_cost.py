"""Measures what rows cost before the first step: `python benchmarks/data_cost.py [--rows 100000,1000000] [--check]`.

Whole processes take turns, over one .jsonl of questions and answers, 420 bytes a row:
script         what a TRL script does: load_dataset, and `datasets.map` with a function that makes the same prompt and
               column of one row
batched        the same with `batched=True`, the fastest that a script can do; what the others are compared with
batched_again  the same script once more, whose rows `datasets` has in its cache
ours           the rows of a plan with the same prompt as templates, in a new run folder
ours_resumed   the same in that run folder, as a resumed run does it
ours_jinja2    the rows of a plan whose templates have an `if` and another filter, which jinja2 renders row by row
What a plan's rows cost has what the script does not do: the data file is compared with its sha256 in the plan, a
template that a row cannot fill, a null in it and a text that is too long are refused, all within limits of time and
memory, and the written rows are read once more for the digest that a resumed run checks.
CPU seconds are those behind the imports, which are the same; memory is the peak of the whole process. Ratios are
medians over the rounds, each within its own round. All give the same rows, or nothing is measured.
`--write` puts the table into benchmarks/data_cost.md.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from validate_time import machine

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "data_cost.md"
MOST_TIMES = {"ours": 1.2, "ours_resumed": 1.0, "ours_jinja2": 5.0}
"""CPU seconds, in times of `batched`."""
PLAIN = ("{{ question }}", "{{ answer.split('####')[-1] | trim }}")
OTHERS = ("{% if question %}{{ question }}{% endif %}", "{{ answer.split('####') | last | trim }}")
MOST_TIMES_MEMORY = 1.3
WORDS = (
    "natalia",
    "sold",
    "clips",
    "to",
    "her",
    "friends",
    "in",
    "april",
    "and",
    "then",
    "half",
    "as",
    "many",
    "in",
    "may",
)
SCRIPT = """
import hashlib, json, resource, sys, time
from datasets import load_dataset
data, cache = sys.argv[1:]
started = time.process_time()
rows = load_dataset("json", data_files=data, split="train", cache_dir=cache)
def prompt(row):
    messages = [{"role": "system", "content": "Think."}, {"role": "user", "content": row["question"]}]
    return {"solution": row["answer"].split("####")[-1].strip(), "prompt": messages}
def prompts(batch):
    asked = [[{"role": "system", "content": "Think."}, {"role": "user", "content": each}] for each in batch["question"]]
    return {"solution": [each.split("####")[-1].strip() for each in batch["answer"]], "prompt": asked}
"""
MAP = "rows = rows.map(prompt)"
MAP_BATCHED = "rows = rows.map(prompts, batched=True)"
OURS = """
import hashlib, json, resource, sys, time
from pathlib import Path
from grpo_recipes.contract.files.digest import file_sha256
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker.data.dataset import prepared_rows, without_cache
data, cache, prompt, solution = sys.argv[1:]
templates = {"prompt": prompt, "columns": {"solution": solution}}
place = {"source": "file", "path": data, "format": "json", "name": None, "split": "train", "revision": None}
how = {"prompt_format": "conversational", "system_prompt": "Think.", "sha256": file_sha256(data)}
planned = Data(**place, **templates, **how)
started = time.process_time()
without_cache(Path(cache))
rows = prepared_rows(planned, "dataset", Path(cache), 0, {}, is_resumed_later=True)
"""
TOLD = """
cpu_s = time.process_time() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
some = [rows[place] for place in range(0, len(rows), max(1, len(rows) // 1000))]
digest = hashlib.sha256(json.dumps([len(rows), rows.column_names, some]).encode()).hexdigest()
print(json.dumps({"cpu_s": cpu_s, "peak_mb": peak * 1.024e-3, "digest": digest}))
"""


class Cost(NamedTuple):
    """What one process cost. digest: of a thousand of the rows that it made."""

    cpu_s: float
    peak_mb: float
    digest: str


class Round(NamedTuple):
    """One process of each kind, run one after the other."""

    script: Cost
    batched: Cost
    batched_again: Cost
    ours: Cost
    ours_resumed: Cost
    ours_jinja2: Cost


def write_rows(path: Path, count: int) -> None:
    """Questions and answers in the sizes of a school's problems, the same ones each time."""
    drawn = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            question, answer = (" ".join(drawn.choices(WORDS, k=length)) for length in (42, 32))
            file.write(json.dumps({"question": question, "answer": f"{answer} #### {number}"}) + "\n")


def run(program: str, *arguments: object) -> Cost:
    """The cost of a process, as it tells it itself. Raises CalledProcessError."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-c", program + TOLD, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, env=environment, cwd=ROOT)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def measured(data: Path, rounds: int) -> Iterator[Round]:
    """The rounds. Exits where the rows are not the same."""
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            batched = f"{SCRIPT}{MAP_BATCHED}"
            found = Round(
                script=run(f"{SCRIPT}{MAP}", data, Path(folder, "script")),
                batched=run(batched, data, Path(folder, "batched")),
                batched_again=run(batched, data, Path(folder, "batched")),
                ours=run(OURS, data, Path(folder, "cache"), *PLAIN),
                ours_resumed=run(OURS, data, Path(folder, "cache"), *PLAIN),
                ours_jinja2=run(OURS, data, Path(folder, "others"), *OTHERS),
            )
        if len({cost.digest for cost in found}) > 1:
            sys.exit("the rows are not the same: nothing was measured")
        yield found


def ratio(rounds: Sequence[Round], name: str, of: str) -> float:
    """The median over the rounds of what a process cost, in times of the batched script's."""
    return statistics.median(getattr(getattr(one, name), of) / getattr(one.batched, of) for one in rounds)


def lines(count: int, rounds: Sequence[Round]) -> Iterator[str]:
    """The lines of the table for so many rows."""
    for name in Round._fields:
        costs = [getattr(one, name) for one in rounds]
        cpu_s, peak_mb = (statistics.median(getattr(cost, of) for cost in costs) for of in ("cpu_s", "peak_mb"))
        times = f"{ratio(rounds, name, 'cpu_s'):.2f} | {ratio(rounds, name, 'peak_mb'):.2f}"
        yield f"| {count:,} | {name} | {cpu_s:.2f} | {peak_mb:.0f} | {times} | {len(rounds)} |"


def holds(rounds: Sequence[Round]) -> bool:
    """Whether the bounds hold: time and memory."""
    return all(
        ratio(rounds, name, "cpu_s") <= most and ratio(rounds, name, "peak_mb") <= MOST_TIMES_MEMORY
        for name, most in MOST_TIMES.items()
    )


def main() -> int:
    """Measures and prints; with --check, 1 when a bound does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000", help="how many rows, with commas for several (default: 100000)")
    parser.add_argument("--runs", type=int, default=3, help="rounds for each (default: 3)")
    parser.add_argument("--write", action="store_true", help=f"write the table into benchmarks/{PAGE.name}")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound does not hold")
    options = parser.parse_args()
    table = [
        "| rows | process | CPU s | peak MB | times the CPU s | times the MB | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    all_hold = True
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, options.rows.split(",")):
            data = Path(folder, f"{count}.jsonl")
            write_rows(data, count)
            rounds = list(measured(data, options.runs))
            table += lines(count, rounds)
            all_hold = all_hold and holds(rounds)
            data.unlink()
    times = ", ".join(f"{name} {most:g}" for name, most in MOST_TIMES.items())
    bounds = f"Bounds, in times of `batched`: CPU s of {times}; MB of each {MOST_TIMES_MEMORY:g}."
    text = "\n".join([*table, "", bounds, machine()])
    print(text)
    if options.write:
        PAGE.write_text(f"# What rows cost before the first step\n\n```text\n{__doc__}```\n\n{text}\n")
    return int(options.check and not all_hold)


if __name__ == "__main__":
    sys.exit(main())
