"""What a guard says, and the line of figures that it looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

SHOWN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """What the trainer logged after an optimizer step.

    step: the last optimizer step that it covers; steps: how many it covers. figures: finite numbers by the newest
    release's names. zero_variance: share of groups of which all completions had the same reward; None where the
    release does not say, or nothing was generated. varied: whether some group had different rewards, None likewise.
    """

    step: int
    steps: int
    figures: Mapping[str, float]
    zero_variance: float | None = None
    varied: bool | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """What was found. value: the figure that the threshold is for; because: the usual cause; fix: the way out."""

    value: float
    found: str
    because: str
    fix: str


class Guard(Protocol):
    """One guard of a training. seen: whether what it watches was there so far."""

    seen: bool

    def look(self, line: Line) -> Alarm | None:
        """What is wrong as of this line. All processes see the same line and come to the same."""


class Window:
    """The mean of a figure over so many optimizer steps, one stretch after the other."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._sum, self._covered = 0.0, 0

    def add(self, line: Line, value: float) -> float | None:
        """The mean when the stretch is full, after which a new one begins; else None."""
        self._sum += value * line.steps
        self._covered += line.steps
        if self._covered < self._steps:
            return None
        mean = self._sum / self._covered
        self._sum, self._covered = 0.0, 0
        return mean


def shown(value: float) -> str:
    """A figure in few digits."""
    return f"{value:.{SHOWN_DIGITS}g}"


def one_line(name: str, identity: str, action: str, step: int, alarm: Alarm) -> str:
    """What is said of an alarm that does not stop the run."""
    kind = {"note": "note", "warn": "warning"}[action]
    return f"{kind}: {name} at step {step}: {alarm.found}; {alarm.because}; fix: {alarm.fix} [{identity}]"


def refusal(name: str, identity: str, step: int, alarm: Alarm) -> str:
    """The message of a run that is stopped."""
    return (
        f"{name}: the guard stopped the run at step {step} [{identity}]\n"
        f"  found    {alarm.found}\n"
        f"  = because: {alarm.because}\n"
        f"  = fix: {alarm.fix}; or guards.{name}: warn, to go on all the same\n"
        f"  = more: grpo-run explain {identity}"
    )
