"""Measures the cost of rows before the first step: `python benchmarks/data_cost.py [--rows 100000,1000000] [--check]`.

Whole processes take turns, with one .jsonl file of questions and answers, 420 bytes a row:
script         a TRL script: load_dataset, and `datasets.map` with a function that makes the same prompt and column of
               one row
batched        the same with `batched=True`, the fastest way for a script, with which the others are compared
batched_again  the same script once more, with the rows in the cache of `datasets`
ours           the rows of a plan with the same prompt as templates, in a new run folder
ours_resumed   the same in that run folder, as in a resumed run
ours_jinja2    the rows of a plan whose templates have an `if` and another filter, which jinja2 renders row by row
filtered       `batched`, and then `datasets.filter` with a function of one row that is true for a third of the rows
ours_filtered  the rows of a plan with the same condition as `dataset.filter`
counted        `batched`, and then `datasets.filter` with `batched=True` that counts the tokens of prompts with the
               chat template of the quickstart's model, and keeps half of the rows
ours_counted   the rows of a plan with the same limit as `dataset.max_prompt_tokens`
mixed          `batched` and the same `datasets.filter` of two files with half of the rows each, and then
               `interleave_datasets` with the probabilities 3 and 1 until all rows of both are drawn
ours_mixed     the mixture of a plan of the two files, with the same filters and weights, and as many prompts
A plan does more than the script: it compares the data file with its sha256, refuses templates that a row cannot fill,
nulls in them and texts that are too long, keeps within limits of time and memory, and reads the written rows once more
for the digest that a resumed run checks. Filtered rows are compared with `filtered` and `counted`, and a mixture with
`mixed`, which draws its rows at random, so these differ. CPU seconds exclude the imports, which are the same; memory is
the peak of the whole process. Ratios are medians over the rounds, each within its own round. Except for mixtures, all
give the same rows; otherwise the benchmark measures nothing. `--write` puts the table into benchmarks/data_cost.md.
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
MOST_TIMES = {
    "ours": 1.2,
    "ours_resumed": 1.0,
    "ours_jinja2": 5.0,
    "ours_filtered": 1.3,
    "ours_counted": 1.3,
    "ours_mixed": 1.3,
}
"""CPU seconds, in times of what each is compared with."""
COMPARED = {"ours_filtered": "filtered", "ours_counted": "counted", "ours_mixed": "mixed"}
"""What is not compared with `batched`."""
LIMIT = 285
MODEL = ROOT / "recipes" / "quickstart" / "model"
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
FILTER = """
rows = rows.filter(lambda row: "april" in row["question"] and len(row["answer"]) % 3 == 0)
"""
COUNT = f"""
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained({str(MODEL)!r})
def short(batch):
    texts = tokenizer.apply_chat_template(batch["prompt"], tokenize=False, add_generation_prompt=True)
    return [len(ids) <= {LIMIT} for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
rows = rows.filter(short, batched=True)
"""
FILTERED = {"filter": "{{ 'april' in question and answer | length % 3 == 0 }}"}
COUNTED = {"max_prompt_tokens": LIMIT}
OURS = """
import hashlib, json, resource, sys, time
from pathlib import Path
from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.plan import Data
from types import SimpleNamespace
from grpo_recipes.worker.data.dataset import prepare_rows, without_cache
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
data, cache, prompt, solution, choice = sys.argv[1:]
templates = {"prompt": prompt, "columns": {"solution": solution}}
place = {"source": "file", "path": data, "format": "json", "name": None, "split": "train", "revision": None}
how = {"prompt_format": "conversational", "system_prompt": "Think.", "sha256": file_sha256(data)}
planned = Data(**place, **templates, **how, **json.loads(choice))
plan = SimpleNamespace(model=None, tokenizer=None, tools=(), arguments=SimpleNamespace(GRPOConfig={}))
started = time.process_time()
without_cache(Path(cache))
def tokenizer():
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained("recipes/quickstart/model")
tokens = PromptTokens(plan, tokenizer, tuple)
rows = prepare_rows(planned, "dataset", Path(cache), 0, {}, is_resumed_later=True, tokens=tokens)
"""
MIX = """
from datasets import interleave_datasets
first = rows
rows = load_dataset("json", data_files=data.replace(".jsonl", "-2.jsonl"), split="train", cache_dir=cache)
rows = rows.map(prompts, batched=True)
rows = rows.filter(lambda row: "april" in row["question"] and len(row["answer"]) % 3 == 0)
parts = [first.shuffle(seed=0), rows.shuffle(seed=0)]
rows = interleave_datasets(parts, [0.75, 0.25], seed=0, stopping_strategy="all_exhausted")
"""
OURS_MIX = f"""{OURS.rpartition("rows = ")[0]}
from dataclasses import replace
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.data.mixture import training_rows
other = data.replace(".jsonl", "-2.jsonl")
sources = tuple(
    replace(planned, path=path, sha256=file_sha256(path), source_name=name, weight=weight)
    for path, name, weight in ((data, "a", 3.0), (other, "b", 1.0))
)
count = 2 * sum(1 for _ in open(data)) * 2 // 3  # as many as interleave_datasets draws, of a third of the rows
plan.arguments.GRPOConfig.update(max_steps=-(-count // 16), seed=0)
plan.sources, plan.resample_groups = sources, 0
plan.batch = Batch(micro_batch=16, accumulation=8, steps_per_generation=8, num_generations=8, prompts=16)
plan.trained_data = {{f"datasets.{{one.source_name}}": one for one in sources}}
rows, _ = training_rows(plan, Path(cache), 0, {{}}, is_resumed_later=True, tokens=tokens)
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
    filtered: Cost
    ours_filtered: Cost
    counted: Cost
    ours_counted: Cost
    mixed: Cost
    ours_mixed: Cost


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
    """The rounds. Exits where the rows are not the same. Beside the file are two with half of its rows each."""
    half = data.with_name("half.jsonl")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            batched = f"{SCRIPT}{MAP_BATCHED}"
            found = Round(
                script=run(f"{SCRIPT}{MAP}", data, Path(folder, "script")),
                batched=run(batched, data, Path(folder, "batched")),
                batched_again=run(batched, data, Path(folder, "batched")),
                ours=run(OURS, data, Path(folder, "cache"), *PLAIN, "{}"),
                ours_resumed=run(OURS, data, Path(folder, "cache"), *PLAIN, "{}"),
                ours_jinja2=run(OURS, data, Path(folder, "others"), *OTHERS, "{}"),
                filtered=run(f"{batched}{FILTER}", data, Path(folder, "filtered")),
                ours_filtered=run(OURS, data, Path(folder, "of_filter"), *PLAIN, json.dumps(FILTERED)),
                counted=run(f"{batched}{COUNT}", data, Path(folder, "counted")),
                ours_counted=run(OURS, data, Path(folder, "of_count"), *PLAIN, json.dumps(COUNTED)),
                mixed=run(f"{batched}{FILTER}{MIX}", half, Path(folder, "mixed")),
                ours_mixed=run(OURS_MIX, half, Path(folder, "of_mixture"), *PLAIN, json.dumps(FILTERED)),
            )
        same = [found[:6], found[6:8], found[8:10]]
        if any(len({cost.digest for cost in costs}) > 1 for costs in same):
            sys.exit("the rows are not the same: nothing was measured")
        yield found


def ratio(rounds: Sequence[Round], name: str, of: str) -> float:
    """The median over the rounds of what a process cost, in times of that which it is compared with."""
    other = COMPARED.get(name, "batched")
    return statistics.median(getattr(getattr(one, name), of) / getattr(getattr(one, other), of) for one in rounds)


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
            for half in ("half.jsonl", "half-2.jsonl"):
                write_rows(data.with_name(half), count // 2)
            rounds = list(measured(data, options.runs))
            table += lines(count, rounds)
            all_hold = all_hold and holds(rounds)
            data.unlink()
    times = ", ".join(f"{name} {most:g}" for name, most in MOST_TIMES.items())
    bounds = f"Bounds, relative to the counterpart of each: CPU s of {times}; MB of each {MOST_TIMES_MEMORY:g}."
    text = "\n".join([*table, "", bounds, machine()])
    print(text)
    if options.write:
        PAGE.write_text(f"# Cost of rows before the first step\n\n```text\n{__doc__}```\n\n{text}\n")
    return int(options.check and not all_hold)


if __name__ == "__main__":
    sys.exit(main())
