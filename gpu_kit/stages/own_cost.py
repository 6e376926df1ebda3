"""Measures the share of a step that proofs and guards take, by CUDA events."""

import statistics
import subprocess

from gpu_kit.bench import Bench, Broken
from gpu_kit.trained import command, environment

MOST = 0.02
"""The maximum share of a step after those in which proofs are made."""
STEPS = 8
PROVED = 2
"""Steps after the first in which a proof may still be made."""


def run(bench: Bench) -> None:
    file = bench.recipe("own_cost", "0.5B", tokens=128)
    folder = bench.run_folder("own_cost")
    words = ("run", str(file), "--out", str(folder), "--dry-run", "--set", f"training.max_steps={STEPS}")
    ran = subprocess.run(command(*words), env=environment(), capture_output=True, text=True)
    if ran.returncode:
        raise Broken(f"--dry-run: exit {ran.returncode}: {ran.stdout + ran.stderr}")
    found = bench.measured("own_cost.py", str(folder))
    bench.figure("milliseconds of each step, from the second on", found["steps_ms"])
    bench.figure("milliseconds of grpo-run's callbacks in it", found["own_ms"])
    own = [sum(step.values()) for step in found["own_ms"]]
    share = statistics.median(own[PROVED:]) / statistics.median(found["steps_ms"][PROVED:])
    bench.figure("share of a step", round(share, 5))
    if not bench.scale.is_small:
        bench.holds(share <= MOST, f"callbacks take {share:.2%} of a step, at most {MOST:.0%} is claimed")
