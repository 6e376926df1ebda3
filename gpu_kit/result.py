"""Stores the results of stages in one JSON file."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

FORMAT = 1
Status = Literal["passed", "failed", "late", "left out"]
BAD: tuple[Status, ...] = ("failed", "late")


@dataclass(slots=True)
class Result:
    """The result of a stage that was run or left out.

    status: "late" if it was ended at its limit. reason: why it was left out or aborted. figures: its measurements, in
    order. wrong: checks that failed. said: the end of its output, unless it passed. beside: how many stages could run
    at the same time; with more than one, durations mean little.
    """

    status: Status
    seconds: float = 0.0
    reason: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    said: str = ""
    beside: int = 1


@dataclass(slots=True)
class Results:
    """The results of all stages on a device so far. machine: as machine.py reports it."""

    device: str
    machine: dict[str, Any]
    stages: dict[str, Result] = field(default_factory=dict)

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
