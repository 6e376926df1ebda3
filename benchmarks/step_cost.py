"""Measures what grpo-run adds to a training step, against a TRL script with the same arguments and seed.

    python benchmarks/step_cost.py [--rounds 5] [--steps 60] [--check]

Each round trains the quickstart once through grpo-run and once through the script below, one process and one thread
each, without evaluation, in alternating order. Compared is the processor time between the first and the last step,
and the losses, which must be the same. With --check: exit 1 when the median of the paired ratios is above 1.01 or a
loss differs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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
trainer = GRPOTrainer(
    model=plan["model"]["path"],
    reward_funcs=exact_match,
    args=GRPOConfig(sys.argv[2], model_init_kwargs=arguments["model_init_kwargs"], **arguments["GRPOConfig"]),
    train_dataset=rows,
    peft_config=LoraConfig(**arguments["LoraConfig"]),
    callbacks=[SeedEachStep()],
)
started = time.process_time()
trainer.train()
cpu_s = time.process_time() - started
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
json.dump({"cpu_s": cpu_s, "losses": losses}, open(sys.argv[3], "w"))
"""


def through_grpo_run(folder: Path, steps: int) -> tuple[float, list[float]]:
    """Processor seconds of the training and the losses."""
    settings = [f"training.max_steps={steps}", "training.save_steps=0", "evaluation=null"]
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / "quickstart.yaml")]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True, cwd=ROOT)
    record = json.loads((folder / "run.json").read_text())
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return record["train_cpu_s"], [event["loss"] for event in events if event["event"] == "step"]


def by_hand(plan: Path, folder: Path) -> tuple[float, list[float]]:
    """The same for the script, with the arguments of a plan."""
    result = folder / "result.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(plan), str(folder), str(result)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    measured = json.loads(result.read_text())
    return measured["cpu_s"], measured["losses"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    ratios, equal = [], True
    with tempfile.TemporaryDirectory() as work:
        for number in range(options.rounds):
            run, script = Path(work, f"run{number}"), Path(work, f"script{number}")
            script.mkdir()
            ours, losses = through_grpo_run(run, options.steps)
            theirs, expected = by_hand(run / "plan.json", script)
            equal = equal and losses == expected
            ratios.append(ours / theirs)
            print(f"round {number + 1}  grpo-run {ours:.2f} CPU s  by hand {theirs:.2f} CPU s", flush=True)
    median = statistics.median(ratios)
    print(f"grpo-run : by hand  {median:.4f} (median of {options.rounds}), losses {'equal' if equal else 'DIFFER'}")
    return int(options.check and (median > MOST or not equal))


if __name__ == "__main__":
    sys.exit(main())
