"""What tests of sweeps ask: a small recipe, a sweep that is started, and what is in its folder."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "recipes" / "quickstart.yaml")
FEW_STEPS = ("--set", "training.max_steps=4", "--set", "evaluation=null", "--out", "swept")
RATE = "training.learning_rate"


@dataclass(frozen=True, slots=True)
class Swept:
    """How a command ended, what it printed, and where the sweep is."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def names(self) -> list[str]:
        """The runs, in their order."""
        content: dict[str, Any] = json.loads((self.folder / "sweep.json").read_text())
        return [run["name"] for run in content["runs"]]

    def starts(self, name: str) -> list[str]:
        """A line for each start of a run by the trainer that stands in."""
        path = self.folder / name / "starts"
        return path.read_text().splitlines() if path.exists() else []


def started(python: Path, place: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    """`grpo-run` in a group of its own."""
    own = {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
        "XDG_CONFIG_HOME": str(place / "own"),
    }
    inherited = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    return subprocess.Popen(
        [str(python), "-m", "grpo_recipes.cli.main", *words],
        cwd=place,
        env={**inherited, **own, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def command(python: Path, place: Path, *words: str, **environment: str) -> Swept:
    """`grpo-run` to its end."""
    process = started(python, place, *words, **environment)
    out, err = process.communicate(timeout=300)
    return Swept(process.returncode, out, err, place / "swept")


def wait_until(condition: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Waits while the process lives, and fails after a minute."""
    give_up = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.05)
