"""Trains the two small models that call something, with several seeds, and prints what was learned.

    python benchmarks/tool_accuracy.py [--seeds 42 0 1 2] [--only calculator,guess]

Each line is one whole `grpo-run`: the held-out reward before and after, that of training in the first and the last ten
steps, and the CPU seconds of training. Exits 1 when a run ends below the bound of its recipe or needs more than 120.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

RECIPES = Path(__file__).parents[1] / "recipes"
# The code of a recipe, and the lowest held-out reward that it has to come to.
CODE = {"calculator": ("calculator.py", 0.95), "guess": ("game.py", 0.5)}
MOST_CPU_S = 120.0


def measure(name: str, seed: int) -> bool:
    """Runs one recipe and prints its line; whether it held the bounds."""
    code, lowest = CODE[name]
    digest = hashlib.sha256((RECIPES / name / code).read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "grpo_recipes.cli.main", str(RECIPES / f"{name}.yaml"), "--allow-code", digest]
        done = subprocess.run([*command, "--set", f"seed={seed}", "--out", str(out)], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name:<12}{seed:>5}  exit {done.returncode}\n{done.stderr[-2000:]}")
            return False
        record = json.loads((out / "run.json").read_text())
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    rewards = [line["reward"] for line in lines if line["event"] == "step"]
    before, after = (record["evaluation"][when]["reward"] for when in ("before", "after"))
    trained = f"{fmean(rewards[:10]):>11.3f}{fmean(rewards[-10:]):>10.3f}"
    print(f"{name:<12}{seed:>5}{before:>9.3f}{after:>9.3f}{trained}{record['train_cpu_s']:>8.0f}", flush=True)
    return bool(after >= lowest and record["train_cpu_s"] <= MOST_CPU_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 0, 1, 2])
    parser.add_argument("--only", default=",".join(CODE), help="recipes, separated by commas")
    arguments = parser.parse_args()
    print(f"{'recipe':<12}{'seed':>5}{'before':>9}{'after':>9}{'first ten':>11}{'last ten':>10}{'CPU s':>8}")
    held = [measure(name, seed) for name in arguments.only.split(",") for seed in arguments.seeds]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
