"""Measures what grpo-run adds to a training step, against a TRL script with the same arguments and seed.

    python benchmarks/step_cost.py [--rounds 5] [--steps 60] [--check]

Each round trains the quickstart once through grpo-run and once through the script below, one process and one thread
each, without evaluation, in alternating order. Compared is the processor time of the training, the seconds by the clock
from the end of the first step to that of the last one, which on a machine with other work are mostly of that, and the
losses, which must be the same. With --check: exit 1 when the median of the paired ratios of processor time is above
1.01 or a loss differs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST = 1.01
SCRIPT = """
import hashlib, json, sys, time
from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer
class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        words = f"{args.seed} {state.global_step} {args.process_index}"
        set_seed(int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big"))
plan = json.load(open(sys.argv[1]))
arguments = plan["arguments"]
def exact_match(completions, solution, **kwargs):
    return [float(c[0]["content"].strip() == s) for c, s in zip(completions, solution)]
rows = load_dataset("json", data_files=plan["data"]["path"], split="train", cache_dir=sys.argv[2])
rows = rows.map(lambda row: {"prompt": [{"role": "user", "content": row["question"]}], "solution": row["answer"]})
set_seed(arguments["GRPOConfig"]["seed"])
times = []
class NoteSteps(TrainerCallback):
    def on_step_end(self, *given, **named):
        times.append(time.time())
trainer = GRPOTrainer(
    model=plan["model"]["path"],
    reward_funcs=exact_match,
    args=GRPOConfig(sys.argv[2], model_init_kwargs=arguments["model_init_kwargs"], **arguments["GRPOConfig"]),
    train_dataset=rows,
    peft_config=LoraConfig(**arguments["LoraConfig"]),
    callbacks=[SeedEachStep(), NoteSteps()],
)
started = time.process_time()
trainer.train()
cpu_s = time.process_time() - started
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
json.dump({"cpu_s": cpu_s, "wall_s": times[-1] - times[0], "losses": losses}, open(sys.argv[3], "w"))
"""


class Training(NamedTuple):
    """cpu_s: of the training; wall_s: from the first step to the last one."""

    cpu_s: float
    wall_s: float
    losses: list[float]


def through_grpo_run(folder: Path, steps: int) -> Training:
    """A run of the quickstart."""
    settings = [f"training.max_steps={steps}", "training.save_steps=0", "evaluation=null"]
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / "quickstart.yaml")]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True, cwd=ROOT)
    record = json.loads((folder / "run.json").read_text())
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = [event for event in events if event["event"] == "step"]
    wall_s = told[-1]["time"] - told[0]["time"]
    return Training(record["train_cpu_s"], wall_s, [event["loss"] for event in told])


def by_hand(plan: Path, folder: Path) -> Training:
    """The same for the script, with the arguments of a plan."""
    result = folder / "result.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(plan), str(folder), str(result)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return Training(**json.loads(result.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    ratios: list[tuple[float, float]] = []
    equal = True
    with tempfile.TemporaryDirectory() as work:
        for number in range(options.rounds):
            run, script = Path(work, f"run{number}"), Path(work, f"script{number}")
            script.mkdir()
            ours = through_grpo_run(run, options.steps)
            theirs = by_hand(run / "plan.json", script)
            equal = equal and ours.losses == theirs.losses
            ratios.append((ours.cpu_s / theirs.cpu_s, ours.wall_s / theirs.wall_s))
            for name, one in (("grpo-run", ours), ("by hand", theirs)):
                print(f"round {number + 1}  {name:8}  {one.cpu_s:.2f} CPU s  {one.wall_s:.2f} s", flush=True)
    median, by_the_clock = (statistics.median(some) for some in zip(*ratios, strict=True))
    print(
        f"grpo-run : by hand  {median:.4f} of CPU s, {by_the_clock:.4f} by the clock (medians of {options.rounds}), "
        f"losses {'equal' if equal else 'DIFFER'}"
    )
    return int(options.check and (median > MOST or not equal))


if __name__ == "__main__":
    sys.exit(main())
