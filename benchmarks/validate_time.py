"""Measures what `grpo-run validate` and `plan` cost: `python benchmarks/validate_time.py [--runs 15] [--check]`.

Four whole processes take turns, so that a busy machine slows all of them alike:
floor     imports pyyaml and click and builds one pydantic model: less than this no such program can cost
validate  checks recipes/qwen2_lora.yaml with all rules on
plan      prints what the same recipe would run, and which of the releases of TRL can express it
trl       `trl grpo --config` of a file with one mistyped key, until it ends with that error
Ratios are medians over the rounds, each within its own round. One round before them warms the caches.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOOR = (
    sys.executable,
    "-c",
    "import yaml, click, pydantic\nclass Model(pydantic.BaseModel):\n    r: int = 8\nModel(r=16)",
)
# The console script's own two lines, so that a checkout that is not installed can be measured too.
COMMAND = (sys.executable, "-c", "import sys\nfrom grpo_recipes.cli.main import main\nsys.exit(main())")
VALIDATE = (*COMMAND, "validate", "recipes/qwen2_lora.yaml")
PLAN = (*COMMAND, "plan", "recipes/qwen2_lora.yaml")
TRL = (str(Path(sys.executable).parent / "trl"), "grpo", "--config")
MISTYPED = """\
model_name_or_path: recipes/quickstart/model
dataset_name: recipes/quickstart
output_dir: never-written
use_cpu: true
num_generation: 8
"""
MOST_FLOORS = 1.2
MOST_FLOORS_OF_PLAN = 2.5
LEAST_TIMES_FASTER = 15.0
MOST_MEMORY_MB = 40.0
MEGABYTES_PER_KIBIBYTE = 1.024e-3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process and its children cost. cpu_s: user and system; memory_mb: peak of the largest one."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    exit_code: int


@dataclass(frozen=True, slots=True)
class Round:
    """One process of each kind, run one after the other."""

    floor: Cost
    validate: Cost
    plan: Cost
    trl: Cost


def run(command: Sequence[str]) -> Cost:
    """The cost of a process, from its start to its end; its output is thrown away."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DS_ACCELERATOR": "cpu"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a checkout has no bytecode before the first round, a package has
    start = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    memory_mb = usage.ru_maxrss * MEGABYTES_PER_KIBIBYTE
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, memory_mb, child.returncode)


def measure(rounds: int) -> list[Round]:
    """The rounds after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "bad.yaml")
        config.write_text(MISTYPED, encoding="utf-8")
        trl = (*TRL, str(config))
        return [Round(run(FLOOR), run(VALIDATE), run(PLAN), run(trl)) for _ in range(rounds + 1)][1:]


def refuse_unexpected_exits(rounds: Sequence[Round]) -> None:
    """Ends the benchmark when a process did something else than what is to be measured."""
    expected = {"floor": 0, "validate": 0, "plan": 0, "trl": 2}
    for name, exit_code in expected.items():
        seen = {getattr(r, name).exit_code for r in rounds}
        if seen != {exit_code}:
            sys.exit(f"{name} ended with exit {sorted(seen)}, expected {exit_code}: nothing was measured")


def row(name: str, costs: Sequence[Cost]) -> str:
    """One line of the table: medians of the times, the peak of the memory."""
    wall_s = statistics.median(c.wall_s for c in costs)
    cpu_s = statistics.median(c.cpu_s for c in costs)
    return f"{name:<10}{wall_s:>9.3f}{cpu_s:>9.3f}{max(c.memory_mb for c in costs):>11.1f}"


def floors_of_plan(rounds: Sequence[Round]) -> float:
    """CPU time of `plan` in floors."""
    return statistics.median(r.plan.cpu_s / r.floor.cpu_s for r in rounds)


def machine() -> str:
    """The machine in one line."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"python {platform.python_version()}, {os.cpu_count()} cores, load {load}"


def print_report(rounds: Sequence[Round], floors: float, times_faster: float) -> None:
    """Prints the table, the ratios with their bounds, and the machine."""
    print(f"{'process':<10}{'wall s':>9}{'CPU s':>9}{'peak MB':>11}   medians of {len(rounds)} rounds")
    for name in Round.__dataclass_fields__:
        print(row(name, [getattr(r, name) for r in rounds]))
    wall_floors = statistics.median(r.validate.wall_s / r.floor.wall_s for r in rounds)
    plan_floors = floors_of_plan(rounds)
    wall_plan_floors = statistics.median(r.plan.wall_s / r.floor.wall_s for r in rounds)
    wall_times_faster = statistics.median(r.trl.wall_s / r.validate.wall_s for r in rounds)
    print(f"validate : floor  {floors:6.2f} CPU  {wall_floors:6.2f} wall   at most {MOST_FLOORS:g}")
    print(f"plan : floor      {plan_floors:6.2f} CPU  {wall_plan_floors:6.2f} wall   at most {MOST_FLOORS_OF_PLAN:g}")
    least = f"at least {LEAST_TIMES_FASTER:g}"
    print(f"trl : validate    {times_faster:6.2f} CPU  {wall_times_faster:6.2f} wall   {least}")
    print(f"validate's memory below {MOST_MEMORY_MB:g} MB")
    print(machine())


def main() -> int:
    """Measures and prints; with --check, 1 when a bound does not hold (of CPU times), else 0."""
    parser = argparse.ArgumentParser(description="Measures what `grpo-run validate` and `plan` cost.")
    parser.add_argument("--runs", type=int, default=15, help="rounds that are counted (default: 15)")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound does not hold")
    parser.add_argument("--slack", type=float, default=1.0, help="factor on the bounds of --check, for a busy machine")
    options = parser.parse_args()
    rounds = measure(options.runs)
    refuse_unexpected_exits(rounds)
    floors = statistics.median(r.validate.cpu_s / r.floor.cpu_s for r in rounds)
    times_faster = statistics.median(r.trl.cpu_s / r.validate.cpu_s for r in rounds)
    memory_mb = max(r.validate.memory_mb for r in rounds)
    print_report(rounds, floors, times_faster)
    holds = floors <= MOST_FLOORS * options.slack and times_faster >= LEAST_TIMES_FASTER / options.slack
    holds = holds and memory_mb < MOST_MEMORY_MB and floors_of_plan(rounds) <= MOST_FLOORS_OF_PLAN * options.slack
    if not holds:
        print("a bound does not hold")
    return int(options.check and not holds)


if __name__ == "__main__":
    sys.exit(main())
