"""Stores the results of stages in one JSON file, and merges such files."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

FORMAT = 2
Status = Literal["passed", "failed", "late", "cut off", "left out"]
BAD: tuple[Status, ...] = ("failed", "late", "cut off")
UNFINISHED: tuple[Status, ...] = ("left out", "cut off")
"""These never replace a result of an earlier call, the first not even one of the second."""


@dataclass(slots=True)
class Result:
    """The result of a stage that was run or left out.

    status: "late" if it was ended at its limit, "cut off" if the command ended before it. reason: why it was left out
    or aborted. figures: its measurements, in order. wrong: checks that failed. said: the end of its output, unless it
    passed. beside: how many stages could run at the same time; with more than one, durations mean little. date: when
    it ended, in UTC. machine: its place in the list of machines.
    """

    status: Status
    seconds: float = 0.0
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    said: str = ""
    beside: int = 1
    date: str = ""
    machine: int = 0

    def replaces(self, earlier: "Result") -> bool:
        """Whether this result is worth more than an earlier one, or as much and not older."""
        worth, of_earlier = (
            UNFINISHED.index(one.status) if one.status in UNFINISHED else len(UNFINISHED) for one in (self, earlier)
        )
        return worth > of_earlier or (worth == of_earlier and self.date >= earlier.date)


@dataclass(slots=True)
class Results:
    """The newest result of each stage on a kind of device. machines: as machine.py reports them, the current one
    last."""

    device: str
    machines: list[dict[str, Any]]
    stages: dict[str, Result] = field(default_factory=dict)

    def move_to(self, machine: dict[str, Any]) -> None:
        """Makes a machine the current one."""
        if self.machines[-1:] != [machine]:
            self.machines.append(machine)

    def add(self, name: str, result: Result) -> None:
        """Adds a result of the current machine, unless an earlier one is worth more."""
        result.machine, result.date = len(self.machines) - 1, datetime.now(UTC).isoformat(timespec="seconds")
        if name not in self.stages or result.replaces(self.stages[name]):
            self.stages[name] = result

    def passed(self) -> set[str]:
        """Returns the stages that need not run again."""
        return {name for name, one in self.stages.items() if one.status == "passed"}

    def is_bad(self, names: Iterable[str]) -> bool:
        """Whether one of these stages failed."""
        return any(self.stages[name].status in BAD for name in names if name in self.stages)

    def write(self, path: Path) -> None:
        """Writes the file atomically, so that an interrupted command leaves the previous one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)


def read_results(path: Path) -> Results:
    """Reads results from a file. Raises ValueError for one in a different format."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path}: not a file of results in format {FORMAT}")
    stages = {name: Result(**one) for name, one in content.pop("stages").items()}
    return Results(stages=stages, **content)


def merged(kept: Results, other: Results) -> Results:
    """Returns the newest result of each stage that was run, with the machines that these are from.

    Raises ValueError for results from different kinds of devices.
    """
    if kept.device != other.device:
        raise ValueError(f"results from {kept.device} and {other.device} have no common table")
    chosen = {name: (one, kept) for name, one in kept.stages.items()}
    for name, one in other.stages.items():
        if one.status != "left out" and (name not in chosen or one.replaces(chosen[name][0])):
            chosen[name] = (one, other)
    merging = Results(kept.device, [])
    for name, (one, source) in chosen.items():
        machine = source.machines[one.machine]
        if machine not in merging.machines:
            merging.machines.append(machine)
        merging.stages[name] = replace(one, machine=merging.machines.index(machine))
    return merging
