"""Measures what more rules cost `grpo-run validate`: `python benchmarks/rules_cost.py [--runs 9]`.

A copy of the package gets copies of its own rule files, under other names and ids, until there are so many. Each number
is the CPU time of a whole process that checks recipes/qwen2_lora.yaml, the median over rounds in which all of them take
turns. A copied decide rule runs too: the copies set what their models set, once more. The floor is that of
validate_time.py: a process that imports pyyaml, click and pydantic.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from validate_time import FLOOR, ROOT, Cost, machine, run

ID = re.compile(r'^ID = "([A-Z]{3}\d{3})"$', re.MULTILINE)
RUN = "import sys\nfrom grpo_recipes.cli.main import main\nsys.exit(main())"
RECIPE = ROOT / "recipes" / "qwen2_lora.yaml"
STACK = "tested,vllm==absent,gpus=1xH100-80GB"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the package. rules: how many rule files it has."""

    folder: Path
    rules: int


def rule_files(package: Path) -> list[Path]:
    """The modules of the rules folder that have an id."""
    return [file for file in sorted((package / "rules").glob("*.py")) if ID.search(file.read_text(encoding="utf-8"))]


def checkout(folder: Path, count: int) -> Checkout:
    """The package with so many rule files, or as many as it has when these are more."""
    package = folder / "grpo_recipes"
    shutil.copytree(ROOT / "grpo_recipes", package, ignore=shutil.ignore_patterns("__pycache__", "worker"))
    models = rule_files(package)
    for number in range(max(count - len(models), 0)):
        model = models[number % len(models)]
        text = ID.sub(f'ID = "X{number // 1000 + 10:02}{number % 1000:03}"', model.read_text(encoding="utf-8"), count=1)
        model.with_name(f"copy_{number}_{model.name}").write_text(text, encoding="utf-8")
    return Checkout(folder, len(rule_files_and_copies(package)))


def rule_files_and_copies(package: Path) -> list[Path]:
    """The rule files and their copies, whose ids have another form."""
    return [*rule_files(package), *(package / "rules").glob("copy_*.py")]


def validated(one: Checkout) -> Cost:
    """The cost of one process; its output is thrown away."""
    # A cache of facts for each, or they would overwrite one another's in turn.
    cache = {"XDG_CACHE_HOME": str(one.folder / "cache")}
    environment = os.environ | cache | {"PYTHONPATH": str(one.folder), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", RUN, "validate", "--target", STACK, str(RECIPE)]
    child = subprocess.Popen(command, cwd=one.folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Cost(0.0, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1.024e-3, child.returncode)


def main() -> int:
    """Measures and prints the table; 1 when a process failed."""
    parser = argparse.ArgumentParser(description="Measures what more rules cost `grpo-run validate`.")
    parser.add_argument("--runs", type=int, default=9, help="rounds that are counted (default: 9)")
    parser.add_argument("--rules", type=int, nargs="+", default=[100, 200, 400], help="how many rule files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        counts = [0, *options.rules]
        checkouts = [checkout(Path(temporary, str(number)), count) for number, count in enumerate(counts)]
        rounds = [[run(FLOOR), *map(validated, checkouts)] for _ in range(options.runs + 1)][1:]
    failed = {cost.exit_code for costs in rounds for cost in costs} - {0}
    print(f"{'rule files':>10}{'CPU s':>9}{'floors':>9}{'peak MB':>10}   medians of {options.runs} rounds")
    for number, name in enumerate(["floor", *(one.rules for one in checkouts)]):
        seconds = statistics.median(costs[number].cpu_s for costs in rounds)
        floors = statistics.median(costs[number].cpu_s / costs[0].cpu_s for costs in rounds)
        print(f"{name:>10}{seconds:>9.3f}{floors:>9.2f}{max(costs[number].memory_mb for costs in rounds):>10.1f}")
    first, last = checkouts[0], checkouts[-1]
    added = statistics.median(costs[-1].cpu_s - costs[1].cpu_s for costs in rounds)
    print(f"one more rule costs {added / max(last.rules - first.rules, 1) * 1000:.2f} ms of CPU time")
    print(machine())
    if failed:
        print(f"a process ended with {sorted(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
