"""What a step costs with TRL's padding, and with rows that are padded to their micro-batch (SHM025)."""

import json
import subprocess
import sys

from gpu_kit.bench import Bench, Broken
from gpu_kit.trained import ROOT, environment

LEAST = 1.2


def run(bench: Bench) -> None:
    words = ["--profiles", "gsm8k,math", "--device", "cuda", "--model", str(bench.model("1.5B"))]
    if bench.scale.is_small:
        words = ["--profiles", "gsm8k", "--groups", "2"]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "padding.py"), *words],
        env=environment(),
        capture_output=True,
        text=True,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"profile"')]
    if ran.returncode or not found:
        raise Broken(f"padding.py: exit {ran.returncode}: {(ran.stdout + ran.stderr)[-2500:]}")
    for one in found:
        name = one.pop("profile")
        bench.figure(name, one)
        trl, own = (one[key]["scoring_s"] + one[key]["update_s"] for key in ("TRL", "less padding"))
        bench.figure(f"{name}: TRL : less padding", round(trl / own, 2))
        if not bench.scale.is_small:
            bench.holds(trl / own >= LEAST, f"{name}: only {trl / own:.2f} times as fast as TRL")
