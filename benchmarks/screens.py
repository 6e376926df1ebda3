"""Writes what terminals show of a real run into docs/watch.md: `python benchmarks/screens.py`, or `make screens`.

Trains the quickstart for some steps and watches it in a terminal of tmux, which has to be installed; half a minute of
CPU time. What is between a line `<!-- NAME -->` and the end of the block behind it is replaced.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from grpo_recipes.contract.metrics import number, read_all
from grpo_recipes.contract.run_record import read_record

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "watch.md"
WIDTHS = (80,)
STEPS, SHOWN_STEP = 60, 24
FOLDER = "runs/addition"
COMMAND = f"{sys.executable} -m grpo_recipes.cli.main"
_LONGEST_S = 300


@contextlib.contextmanager
def terminals(place: Path) -> Iterator[Callable[[int], str]]:
    """Opens a terminal of each width that watches the run; gives what one of them shows now."""
    server = ["tmux", "-L", f"screens-{os.getpid()}", "-f", "/dev/null"]
    try:
        for width in WIDTHS:
            size = ["-x", str(width), "-y", "24"]
            command = f"{COMMAND} watch {FOLDER}; sleep {_LONGEST_S}"
            subprocess.run([*server, "new-session", "-d", "-s", f"w{width}", *size, command], cwd=place, check=True)

        def shown(width: int) -> str:
            words = [*server, "capture-pane", "-p", "-t", f"w{width}"]
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout.rstrip()

        yield shown
    finally:
        subprocess.run([*server, "kill-server"], check=False)


def until(is_there: Callable[[], bool]) -> None:
    """Waits for something; raises TimeoutError where it does not come."""
    end = time.monotonic() + _LONGEST_S
    while not is_there():
        if time.monotonic() > end:
            raise TimeoutError("the run does not get there")
        time.sleep(0.1)


def has_phase(folder: Path, name: str) -> bool:
    """Whether a run's start is busy with this."""
    record = read_record(str(folder))
    return record is not None and any(isinstance(one, dict) and one["name"] == name for one in record.phases or [])


def last_step(folder: Path) -> float:
    """The newest step of a run, 0 before the first."""
    return max((number(event, "step") or 0 for event in read_all(str(folder / "metrics.jsonl"))), default=0)


def screens() -> dict[str, str]:
    """What is shown, by the name of its block."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        words = ["run", str(ROOT / "recipes/quickstart.yaml"), "--set", f"training.max_steps={STEPS}", "--out", FOLDER]
        with open(place / "output", "w") as output:
            training = subprocess.Popen([*COMMAND.split(), *words, "-q"], cwd=place, stdout=output, stderr=output)
        folder = place / FOLDER
        until(lambda: (folder / "run.json").exists() or training.poll() is not None)
        with terminals(place) as shown:
            until(lambda: has_phase(folder, "loading the model") and "loading the model" in shown(80))
            found = {"start": shown(80)}
            until(lambda: last_step(folder) >= SHOWN_STEP)
            time.sleep(1)
            found |= {str(width): shown(width) for width in WIDTHS}
            training.wait(timeout=_LONGEST_S)
    return found


def page(text: str, found: dict[str, str]) -> str:
    """A page with the blocks replaced. Raises ValueError where it has no place for one."""
    for name, shown in found.items():
        block = f"<!-- {name} -->\n\n```text\n{shown}\n```\n"
        text, count = re.subn(rf"(?ms)^<!-- {name} -->\n\n```text\n.*?^```\n", lambda _, block=block: block, text)
        if count != 1:
            raise ValueError(f"{PAGE.name} has no block {name}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), screens()), encoding="utf-8")
