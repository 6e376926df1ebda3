"""Runs trainings through `grpo-run` in separate processes, and reads their run folders."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from grpo_recipes.contract.metric_names import PHASE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
_END = 3000


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run. code: of the command. said: the end of its output. record: run.json. steps: events of
    metrics.jsonl.

    started_s: seconds from the command to the start of the first step, None if there was none.
    """

    folder: Path
    code: int
    seconds: float
    said: str
    record: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    started_s: float | None = None

    @property
    def losses(self) -> list[tuple[float, float]]:
        """Returns loss and gradient norm of each step."""
        return [(step["loss"], step["grad_norm"]) for step in self.steps]

    @property
    def proofs(self) -> dict[str, bool | None]:
        """Returns each proof by id: True, False, or None if it was not checked."""
        return {one["id"]: one["ok"] for one in self.record.get("proofs") or []}

    @property
    def shown(self) -> dict[str, str]:
        """Returns the details of each proof, by id."""
        return {one["id"]: one["shown"] for one in self.record.get("proofs") or []}

    @property
    def messages(self) -> list[str]:
        """Returns why the run ended, one line per finding."""
        return [one["message"] for one in self.record.get("findings") or []]

    def step_seconds(self, without: int = 1, of: Callable[[list[float]], float] = statistics.median) -> float | None:
        """Returns the median duration of the steps by the clock, or a different duration, without the first ones."""
        times = [step["time"] for step in self.steps]
        apart = [b - a for a, b in pairwise(times)][max(0, without - 1) :]
        return round(of(apart), 4) if apart else None

    def phase_seconds(self, without: int = 1) -> dict[str, float]:
        """Returns the median seconds of each phase in a step, without the first steps; of phases that took any."""
        found = {
            phase: statistics.median(step.get(name) or 0.0 for step in self.steps[without:])
            for phase, name in PHASE_SECONDS.items()
        }
        return {phase: round(seconds, 3) for phase, seconds in found.items() if seconds}

    def peak(self) -> tuple[str, int, int | None] | None:
        """Returns the phase with the highest peak, its bytes and its estimate; only phases that have one count."""
        phases = {name: one for name, one in (self.record.get("memory") or {}).items() if one["measured"]}
        if not phases:
            return None
        name = max(phases, key=lambda one: phases[one]["measured"])
        return name, phases[name]["measured"], phases[name]["estimated"]


def command(*words: str) -> list[str]:
    """Returns `grpo-run` from these sources, with this Python."""
    return [sys.executable, "-m", "grpo_recipes.cli.main", *words]


def environment(**more: str) -> dict[str, str]:
    """Returns this process's environment, with network access disabled for the libraries."""
    own = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    behind = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(behind), **more}


def run_of(folder: Path, code: int, said: str, began: float) -> Trained:
    """Reads a run from the folder of a training command. began: time.time() when it was started."""
    record, steps, started = {}, [], None
    if (folder / "run.json").exists():
        record = json.loads((folder / "run.json").read_text())
    if (folder / "metrics.jsonl").exists():
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        started = next((round(event["time"] - began, 1) for event in events if event["event"] == "start"), None)
    return Trained(folder, code, round(time.time() - began, 1), said[-_END:], record, steps, started)


def train(folder: Path, *words: str, **variables: str) -> Trained:
    """Runs `grpo-run` with these arguments to its end; `folder` is where it trains."""
    began = time.time()
    ran = subprocess.run(
        command(*words), env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return run_of(folder, ran.returncode, ran.stdout, began)
