"""Compares a step's cost with TRL's padding and with rows padded to their micro-batch (SHM025)."""

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
    command = [sys.executable, str(ROOT / "benchmarks" / "padding.py"), *words]
    log = bench.folder / "padding.log"
    bench.folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, dict[str, float]] = {}
    with (
        log.open("w") as said,
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        for line in process.stdout or ():
            if not line.startswith('{"profile"'):
                continue
            one = json.loads(line)
            profile, way = one.pop("profile"), one.pop("way")
            bench.figure(f"{profile}: {way}", one)
            spent = seconds.setdefault(profile, {})
            spent[way] = one["scoring_s"] + one["update_s"]
            bench.figure(
                f"{profile}: times as fast as TRL", {key: round(spent["TRL"] / s, 2) for key, s in spent.items()}
            )
    if process.returncode or not seconds:
        raise Broken(f"padding.py: exit {process.returncode}: {log.read_text()[-2500:]}")
    for profile, spent in seconds.items() if not bench.scale.is_small else ():
        best = spent["TRL"] / min(spent.values())
        bench.holds(best >= LEAST, f"{profile}: only {best:.2f} times as fast as TRL")
