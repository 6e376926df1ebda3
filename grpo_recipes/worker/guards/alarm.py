"""What a guard says, and the line of figures that it looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from grpo_recipes.contract.findings.finding import Finding, mistake

SHOWN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """What the trainer logged after an optimizer step.

    step: the last optimizer step that it covers; steps: how many it covers. figures: finite numbers by the newest
    release's names. zero_variance: share of groups of which all completions were worth the same; None where nothing
    was generated.
    """

    step: int
    steps: int
    figures: Mapping[str, float]
    zero_variance: float | None = None

    @property
    def varied(self) -> bool | None:
        """Whether some group had different rewards, None where nothing was generated."""
        return None if self.zero_variance is None else self.zero_variance < 1


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a guard found. value: the figure that the threshold is for."""

    value: float
    finding: Finding

    @classmethod
    def of(cls, value: float, found: str, because: str, fix: str) -> Self:
        """The alarm with what was found, the usual cause and the way out."""
        return cls(value, mistake(found, because=because, fix=fix))


class Guard(Protocol):
    """One guard of a training. seen: whether what it watches was there so far."""

    seen: bool = False

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


def refusal(name: str, identity: str, step: int, alarm: Alarm) -> Finding:
    """Why a run is stopped."""
    return alarm.finding._replace(
        rule=identity,
        message=f"{name}: the guard stopped the run at step {step}",
        seen=(f"found    {alarm.finding.message}",),
        fix=f"{alarm.finding.fix}; or guards.{name}: warn, to go on all the same",
    )
