"""Measures how long a run takes to its first step: `python benchmarks/start_cost.py [--rounds 5] [--check]`.

Each round trains one step of the quickstart through grpo-run and one through the script of step_cost.py, one process
and one thread each, in alternating order: seconds by the clock from the start of the command to the end of the first
step, and the processor seconds of the whole command with all its processes. The plan is made anew, of a recipe that was
read before; the script has the arguments of a plan and checks, plans and writes nothing. With --check: exit 1 when the
median difference by the clock is above half a second.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from step_cost import SCRIPT

ROOT = Path(__file__).parents[1]
MOST_S = 0.5
SETTINGS = ("training.max_steps=1", "training.save_steps=0", "evaluation=null")
NOTED = """
class NotedStep(TrainerCallback):
    def on_step_end(self, *given, **named):
        open(sys.argv[3] + ".step", "w").write(repr(time.time()))
"""


class Start(NamedTuple):
    """first_step_s: by the clock; cpu_s: of the command."""

    first_step_s: float
    cpu_s: float


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """When a command began, and its processor seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def through_grpo_run(folder: Path) -> Start:
    """A whole command, from the recipe on."""
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(ROOT / "recipes" / "quickstart.yaml")]
    for setting in SETTINGS:
        command += ["--set", setting]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began, cpu_s = run([*command, "--out", str(folder)], environment)
    events = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return Start(next(event["time"] for event in events if event["event"] == "step") - began, cpu_s)


def by_hand(plan: Path, folder: Path) -> Start:
    """The script, which saves its model at the end as a run does."""
    script = SCRIPT.replace("plan = json", f"{NOTED}plan = json").replace("NoteSteps()]", "NoteSteps(), NotedStep()]")
    assert "NotedStep()]" in script
    result = folder / "result.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    save = "\ntrainer.save_model(sys.argv[2])\n"
    began, cpu_s = run([sys.executable, "-c", script + save, str(plan), str(folder), str(result)], environment)
    return Start(float(Path(f"{result}.step").read_text()) - began, cpu_s)


def main() -> int:
    """Measures and prints; with --check, 1 when the bound does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as work:
        for number in range(options.rounds):
            folder, script = Path(work, f"run{number}"), Path(work, f"script{number}")
            script.mkdir()
            pairs.append((through_grpo_run(folder), by_hand(folder / "plan.json", script)))
            for name, one in zip(("grpo-run", "by hand"), pairs[-1], strict=True):
                print(
                    f"round {number + 1}  {name:8}  first step {one.first_step_s:.2f} s  {one.cpu_s:.2f} CPU s",
                    flush=True,
                )
    more_s, more_cpu_s = (
        statistics.median(getattr(ours, of) - getattr(theirs, of) for ours, theirs in pairs) for of in Start._fields
    )
    print(f"more than by hand  first step {more_s:+.2f} s  {more_cpu_s:+.2f} CPU s (medians of {len(pairs)})")
    return int(options.check and more_s > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
