"""Measures what completions.jsonl costs: the processor time in which a training writes it, and whether it changes it.

    python benchmarks/completions_cost.py [--size short] [--steps 60] [--check]

Trains once with it and once without, one process and one thread, without evaluation. --size short: the quickstart,
whose steps of a seventh of a second are the shortest there are, so the share is the largest; real: the sums of `make
real`, which writes build/real, with SmolLM2-135M-Instruct. The time is counted where it is spent: two
whole trainings differ from each other by more than this. With --check: exit 1 when it is above 1 % of the training's,
or a loss differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPES = {"short": ROOT / "recipes/quickstart.yaml", "real": ROOT / "build/real/smollm2.yaml"}
MOST = 0.01
# In the place of worker/train.py of the run folder.
TIMED = """
import sys
import time
from pathlib import Path

from grpo_recipes.worker.completions.kept_completions import KeptCompletions
from grpo_recipes.worker.run import train

FOLDER = Path(__file__).resolve().parent.parent
write, spent = KeptCompletions.write, []

def timed(*given):
    began = time.thread_time()
    write(*given)
    spent.append(time.thread_time() - began)

KeptCompletions.write = timed
code = train(FOLDER, resume=False)
(FOLDER / "spent.txt").write_text(str(sum(spent)))
sys.exit(code)
"""


def trained(recipe: Path, folder: Path, steps: int, kept: int) -> list[float]:
    """The losses of a run that keeps so many completions of each step, in a new folder."""
    settings = [f"training.max_steps={steps}", "training.save_steps=0", "evaluation=null"]
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(recipe), "--dry-run"]
    for setting in [*settings, f"logging.kept_completions={kept}"]:
        command += ["--set", setting]
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True, cwd=ROOT)
    (folder / "worker" / "train.py").write_text(TIMED)
    subprocess.run(["bash", str(folder / "launch.sh")], check=True, capture_output=True, env=environment)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=RECIPES, default="short")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "with")
        losses, without = (
            trained(RECIPES[options.size], place, options.steps, kept)
            for place, kept in ((folder, 4), (Path(work, "without"), 0))
        )
        spent, whole = (
            float((folder / "spent.txt").read_text()),
            json.loads((folder / "run.json").read_text())["train_cpu_s"],
        )
        size = (folder / "completions.jsonl").stat().st_size
    print(f"{spent:.3f} of {whole:.2f} CPU s, {spent / whole:.2%}, for {size} bytes of {options.steps} steps")
    print(f"losses with it and without it: {'equal' if losses == without else 'DIFFERENT'}")
    return int(options.check and (spent > MOST * whole or losses != without))


if __name__ == "__main__":
    sys.exit(main())
