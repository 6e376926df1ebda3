"""A guard's alarm, and the logged figures that guards read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from grpo_recipes.contract.findings.finding import Finding, mistake

SHOWN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """What the trainer logged after an optimizer step.

    step: the last optimizer step that it covers; steps: how many it covers. figures: finite numbers by the newest
    release's names. zero_variance: share of groups whose completions all had the same reward; None if nothing was
    generated.
    """

    step: int
    steps: int
    figures: Mapping[str, float]
    zero_variance: float | None = None

    @property
    def has_variance(self) -> bool | None:
        """Whether some group had different rewards, None if nothing was generated."""
        return None if self.zero_variance is None else self.zero_variance < 1


@dataclass(frozen=True, slots=True)
class Alarm:
    """A guard's alarm. value: the figure compared with the threshold.

    is_note: the value is below the threshold and triggers no action, but is worth reporting.
    """

    value: float
    finding: Finding
    is_note: bool = False

    @classmethod
    def of(cls, value: float, message: str, because: str, fix: str, *, is_note: bool = False) -> Self:
        """Returns the alarm with its message, the usual cause and a fix."""
        return cls(value, mistake(message, because=because, fix=fix), is_note)


class Guard(Protocol):
    """A guard of one training. seen: whether its figures have been logged so far."""

    seen: bool = False

    def look(self, line: Line) -> Alarm | None:
        """Returns this line's alarm, or None. All processes see the same line, so they decide the same."""


class Window:
    """Averages a figure over consecutive windows of so many optimizer steps."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._sum, self._covered = 0.0, 0

    def add(self, line: Line, value: float) -> float | None:
        """Adds a line's value, and returns the mean once the window is full; then a new window begins."""
        self._sum += value * line.steps
        self._covered += line.steps
        if self._covered < self._steps:
            return None
        mean = self._sum / self._covered
        self._sum, self._covered = 0.0, 0
        return mean


def figure(value: float) -> str:
    """Returns a figure rounded to a few digits."""
    return f"{value:.{SHOWN_DIGITS}g}"


def refusal(name: str, identity: str, step: int, alarm: Alarm) -> Finding:
    """Returns the finding of a guard that stops the run."""
    return alarm.finding._replace(
        rule=identity,
        message=f"{name}: the guard stopped the run at step {step}",
        seen=(f"found    {alarm.finding.message}",),
        fix=f"{alarm.finding.fix}; or guards.{name}: warn, to continue anyway",
    )
