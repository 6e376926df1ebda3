"""Compares what grpo-run reports about the machine with torch and the driver."""

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

from gpu_kit.bench import Bench, Broken
from gpu_kit.machine import machine
from gpu_kit.trained import command, environment


def run(bench: Bench) -> None:
    ran = subprocess.run(command("doctor", "--json"), env=environment(), capture_output=True, text=True)
    if ran.returncode:
        raise Broken(f"grpo-run doctor: exit {ran.returncode}: {ran.stderr[-2000:]}")
    said = json.loads(ran.stdout)
    live = machine()
    bench.figure("live", live)
    bench.figure("grpo-run's GPUs", said["stack"]["gpus"])
    bench.figure("findings", [finding["message"] for finding in said["findings"]])
    # Triton compiles a small C program at first use.
    bench.figure("C compiler", shutil.which("cc") or shutil.which("gcc") or "none")
    bench.figure("Python.h", (Path(sysconfig.get_paths()["include"]) / "Python.h").exists())
    errors = [finding["message"] for finding in said["findings"] if finding["severity"] == "error"]
    bench.holds(not errors, f"grpo-run doctor finds: {'; '.join(errors)}")
    if "problem" in live:
        raise Broken(f"torch cannot use the device: {live['problem']}")
    gpus = said["stack"]["gpus"] or []
    bench.holds(len(gpus) == live["sees_gpus"], f"grpo-run sees {len(gpus)} GPUs, torch sees {live['sees_gpus']}")
    if bench.scale.device == "cuda":
        bench.holds(live["sees_gpus"] > 0 and bool(live.get("works")), "torch computes on no GPU")
    for gpu in gpus[: live["sees_gpus"]]:
        bench.holds(gpu["name"] == live["gpu"], f"grpo-run: {gpu['name']}, torch: {live['gpu']}")
        bench.holds(gpu["capability"] == live["capability"], f"capability {gpu['capability']}, not torch's")
        share = (gpu["memory_gib"] or 0) / live["gib"]
        bench.holds(0.95 <= share <= 1.05, f"grpo-run: {gpu['memory_gib']} GiB, torch: {live['gib']} GiB")
