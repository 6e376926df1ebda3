"""Chooses a run's display: moving rows on a terminal, plain lines elsewhere, or almost nothing."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from grpo_recipes.contract.event_words import event_lines, step_line
from grpo_recipes.contract.metrics import Event, number
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.progress import NORMAL, Due, Estimate, Progress, View, is_over, needs_attention
from grpo_recipes.launch.stop_signals import never_stopped_by_output


def progress(echo: TextIO, view: View = NORMAL, began: float | None = None) -> Progress:
    """The display for a stream: moving rows on a terminal, plain lines elsewhere.

    began: when the run was started, a Unix time; default now.
    """
    if view.level == "quiet" or not echo.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainProgress(echo, view)
    from grpo_recipes.launch.screen import Screen  # rich takes 50 ms

    return Screen(echo, view, time.time() if began is None else began)


@contextlib.contextmanager
def busy(words: str) -> Iterator[Progress]:
    """Shows the command's activity and its duration on a terminal; the row disappears when the block ends.

    Shows nothing elsewhere, since durations in a log are of no use. Only for a block that prints no answer, because the
    moving row captures printed output.
    """
    never_stopped_by_output()
    with progress(sys.stderr) as shown:
        shown.show({"event": "phase", "name": words, "began": time.time()})
        yield shown


class PlainProgress:
    """Lines for a log: selected steps, or with `verbose` every step and the phases of the start."""

    def __init__(self, echo: TextIO, view: View = NORMAL) -> None:
        self._echo = echo
        self.view = view
        self._estimate = Estimate()
        self._due = Due()
        self._max_steps: float | None = None

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._echo.flush()

    def say(self, line: str) -> None:
        print(redact(line), file=self._echo, flush=True)

    def note(self, line: str) -> None:
        if self.view.level != "quiet":
            self.say(line)

    def show(self, event: Event) -> None:
        self._max_steps = number(event, "max_steps") or self._max_steps
        if self._is_told(event):
            for line in event_lines(event):
                self.say(line)
        step = number(event, "step")
        if event.get("event") != "step" or step is None:
            return
        now = time.monotonic()
        left = self._estimate.seconds_left({"max_steps": self._max_steps, **event}, now)
        is_due = self._due.is_due(step, self._max_steps, now)
        if self.view.level == "verbose" or (self.view.level == "normal" and is_due):
            self.say(step_line(event, self._max_steps, left))

    def _is_told(self, event: Event) -> bool:
        if self.view.level == "quiet":
            return needs_attention(event)
        return event.get("event") != "phase" or (self.view.level == "verbose" and is_over(event))
