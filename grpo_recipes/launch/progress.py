"""The interface of progress displays: how much of a run they show, and when."""

from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from grpo_recipes.contract.metrics import Event, number

_SHORTEST_PAUSE_S = 5.0
_REMEMBERED_STEPS = 20

Level = Literal["quiet", "normal", "verbose"]


@dataclass(frozen=True, slots=True)
class View:
    """How much of a run is shown. quiet: only what needs action; verbose: a permanent line for each step and phase.

    samples: completions to print, with their rewards, for each reported step.
    """

    level: Level = "normal"
    samples: int = 0


NORMAL = View()


class Progress(AbstractContextManager["Progress"], Protocol):
    """Shows events of a run as they arrive, and messages between them. view: how much it shows."""

    view: View

    def show(self, event: Event) -> None:
        """Shows one event of metrics.jsonl, or a phase of the start."""

    def say(self, line: str) -> None:
        """Prints one permanent line."""

    def note(self, line: str) -> None:
        """Prints one permanent line, unless the user asked for quiet."""


class Estimate:
    """Estimates the remaining time from the newest steps."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED_STEPS)
        self._last: tuple[float, float] | None = None

    def seconds_left(self, event: Event, now: float) -> float | None:
        """Seconds left after this step, None if the number of steps or their duration is unknown.

        Uses the times at which steps were written, which include saving and evaluating; for the first step its own
        report. now: for an event without a time.
        """
        step, of = number(event, "step"), number(event, "max_steps")
        if step is None:
            return None
        when = number(event, "time")
        when = now if when is None else when
        if self._last is not None and step > self._last[0]:
            self._seconds.append((when - self._last[1]) / (step - self._last[0]))
        self._last = (step, when)
        reported = number(event, "step_time")
        known = sum(self._seconds) / len(self._seconds) if self._seconds else reported
        return None if of is None or known is None else known * max(of - step, 0)


class Due:
    """Chooses the steps to report: the first and last, every tenth of the run, and twentieths that take 5 s."""

    def __init__(self) -> None:
        self._shown: tuple[float, float] | None = None

    def is_due(self, step: float, max_steps: float | None, now: float) -> bool:
        """Whether to report this step, which then counts as reported."""
        if self._shown is not None and step != max_steps:
            last_step, last_time = self._shown
            if max_steps is None and step < 2 * last_step:
                return False
            done = 1.0 if max_steps is None else (step - last_step) / max_steps
            if done < 0.05 or (done < 0.1 and now - last_time < _SHORTEST_PAUSE_S):
                return False
        self._shown = (step, now)
        return True


def needs_attention(event: Event) -> bool:
    """Whether an event needs action: a guard that warned or stopped, or a server that died."""
    is_alarm = event.get("event") == "guard" and event.get("action") != "note"
    return is_alarm or (event.get("event") == "server" and event.get("state") == "died")


def is_over(phase: Event) -> bool:
    """Whether a phase of the start has ended; it is then reported a second time."""
    return number(phase, "seconds") is not None
