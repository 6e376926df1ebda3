"""Trains the quickstart with several seeds, with LoRA, in full and with two processes, and prints what was learned.

    python benchmarks/quickstart_accuracy.py [--seeds 1 2 3] [--only lora,full]

Each line is one whole `grpo-run`; accuracies are of the held-out sums, most likely answer, before and after. Exits 1
when a run ends below 95 % or needs more than 60 CPU seconds of training.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {
    "lora": ("quickstart.yaml", []),
    "full": ("quickstart.yaml", ["--set", "lora=null", "--set", "training.learning_rate=3e-4"]),
    "lora x2": ("quickstart.yaml", ["--set", "launch.num_processes=2"]),
    "qlora": ("quickstart_qlora.yaml", []),
}
LOWEST_ACCURACY = 0.95
MOST_CPU_S = 60.0


def measure(kind: str, seed: int) -> bool:
    """Runs one recipe and prints its line; whether it held the bounds."""
    recipe, options = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / recipe)]
        started = time.perf_counter()
        done = subprocess.run(
            [*command, *options, "--set", f"seed={seed}", "--out", str(out)], capture_output=True, text=True
        )
        wall_s = time.perf_counter() - started
        if done.returncode != 0:
            print(f"{kind:<8}{seed:>5}  exit {done.returncode}\n{done.stderr[-2000:]}")
            return False
        record = json.loads((out / "run.json").read_text())
    before, after = (record["evaluation"][when]["reward"] for when in ("before", "after"))
    print(f"{kind:<8}{seed:>5}{before:>9.1%}{after:>9.1%}{record['train_cpu_s']:>13.1f}{wall_s:>12.1f}", flush=True)
    return bool(after >= LOWEST_ACCURACY and record["train_cpu_s"] <= MOST_CPU_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    arguments = parser.parse_args()
    print(f"{'kind':<8}{'seed':>5}{'before':>9}{'after':>9}{'train CPU s':>13}{'wall s':>12}")
    held = [measure(kind, seed) for kind in arguments.only.split(",") for seed in arguments.seeds]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
