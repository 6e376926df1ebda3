"""What is seen while a run trains: one moving line on a terminal, some plain lines elsewhere."""

import time
from collections import deque
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from grpo_recipes.contract.metrics import Event, evaluation_text, number
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.live_line import clock, live_line, step_parts, step_text

_SHORTEST_PAUSE_S = 5.0
_REMEMBERED_STEPS = 20
_STYLES = {"warn": "yellow", "stop": "red"}


class Progress(AbstractContextManager["Progress"], Protocol):
    """Shows events of metrics.jsonl as they come, and lines of talk between them."""

    def show(self, event: Event) -> None:
        """Shows one event."""

    def say(self, line: str) -> None:
        """Prints one line that stays."""


def progress(echo: TextIO) -> Progress:
    """The progress that fits a stream: a moving line on a terminal, plain lines elsewhere."""
    return TerminalProgress(echo) if echo.isatty() else PlainProgress(echo)


class Estimate:
    """How long the rest takes, from the newest steps."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED_STEPS)
        self._last: tuple[float, float] | None = None

    def seconds_left(self, event: Event, now: float) -> float | None:
        """Seconds to go after this step, None when the number of steps or their time is unknown.

        Steps are timed by the clock between them, which counts saving and evaluating; first by its report.
        """
        step, of = number(event, "step"), number(event, "max_steps")
        if step is None:
            return None
        if self._last is not None and step > self._last[0]:
            self._seconds.append((now - self._last[1]) / (step - self._last[0]))
        self._last = (step, now)
        reported = number(event, "step_time")
        known = sum(self._seconds) / len(self._seconds) if self._seconds else reported
        return None if of is None or known is None else known * max(of - step, 0)


class PlainProgress:
    """Lines for a log: the first and last step, each tenth, and twentieths that take longer than 5 s."""

    def __init__(self, echo: TextIO) -> None:
        self._echo = echo
        self._estimate = Estimate()
        self._max_steps: float | None = None
        self._shown: tuple[float, float] | None = None

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._echo.flush()

    def say(self, line: str) -> None:
        print(redact(line), file=self._echo, flush=True)

    def show(self, event: Event) -> None:
        self._max_steps = number(event, "max_steps") or self._max_steps
        kind, step = event.get("event"), number(event, "step")
        if kind == "evaluation":
            self.say(_evaluation_line(event))
        elif kind == "guard":
            self.say(_guard_line(event))
        elif kind == "server":
            self.say(_server_line(event))
        for line in _resumed_lines(event):
            self.say(line)
        if kind != "step" or step is None:
            return
        now = time.monotonic()
        left = self._estimate.seconds_left({"max_steps": self._max_steps, **event}, now)
        if self._is_due(step, now):
            self._shown = (step, now)
            of = f"/{self._max_steps:.0f}" if self._max_steps is not None else ""
            self.say(f"step {step:.0f}{of}  {step_text(event, left)}".rstrip())

    def _is_due(self, step: float, now: float) -> bool:
        if self._shown is None or step == self._max_steps:
            return True
        last_step, last_time = self._shown
        if self._max_steps is None:
            return step >= 2 * last_step
        done = (step - last_step) / self._max_steps
        return done >= 0.1 or (done >= 0.05 and now - last_time >= _SHORTEST_PAUSE_S)


class TerminalProgress:
    """A bar with the newest step beside it, as much as the terminal is wide; evaluations stay above it as lines.

    Colours are rich's: none where NO_COLOR is set or the terminal is a dumb one.
    """

    def __init__(self, echo: TextIO) -> None:
        # Imported here, since only `run` on a terminal needs it and it costs 50 ms.
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._head, self._text, self._clock = (
            TextColumn("{task.description}"),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
        )
        self._bar_column = BarColumn(bar_width=20)
        self._bar = Bar(self._head, self._bar_column, console=Console(file=echo), refresh_per_second=4)
        self._task = self._bar.add_task("starting", total=None, text="")
        self._estimate = Estimate()
        self._max_steps: float | None = None

    def __enter__(self) -> "TerminalProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, line: str, style: str | None = None) -> None:
        self._bar.console.print(redact(line), markup=False, highlight=False, soft_wrap=True, style=style)

    def show(self, event: Event) -> None:
        self._max_steps = number(event, "max_steps") or self._max_steps
        kind, step = event.get("event"), number(event, "step")
        if kind == "evaluation":
            self.say(_evaluation_line(event))
        elif kind == "guard":
            self.say(_guard_line(event), _STYLES.get(str(event.get("action"))))
        elif kind == "server":
            self.say(_server_line(event))
        for line in _resumed_lines(event):
            self.say(line)
        if kind == "step" and step is not None:
            self._move(event, step)

    def _move(self, event: Event, step: float) -> None:
        left = self._estimate.seconds_left({"max_steps": self._max_steps, **event}, time.monotonic())
        head = f"step {step:.0f}" + (f"/{self._max_steps:.0f}" if self._max_steps is not None else "")
        elapsed = clock(self._bar.tasks[0].elapsed or 0.0)
        line = live_line(head, step_parts(event, left), self._bar.console.width, elapsed)
        self._bar_column.bar_width = line.bar
        wanted = [(self._head, True), (self._bar_column, line.bar), (self._text, True), (self._clock, line.has_clock)]
        self._bar.columns = tuple(column for column, is_there in wanted if is_there)
        self._bar.update(self._task, description=head, completed=step, total=self._max_steps, text=line.text)


def _evaluation_line(event: Event) -> str:
    step = number(event, "step")
    where = f" at step {step:.0f}" if step is not None else ""
    return f"evaluation{where}  {evaluation_text(event)}"


def _resumed_lines(event: Event) -> list[str]:
    """From which checkpoint the run goes on, and which were skipped."""
    lines = event.get("resumed")
    return [str(line) for line in lines] if isinstance(lines, list) else []


def _server_line(event: Event) -> str:
    """What happened to the vLLM server of the run."""
    state, seconds = event.get("state"), number(event, "seconds")
    if state == "died":
        again = f"{event.get('restart')} of {event.get('of')}"
        return f"the vLLM server {event.get('how')}; it and the trainer are started again, {again}"
    after = f" after {clock(seconds)}" if seconds is not None else ""
    return f"the vLLM server is {state}{after}"


def _guard_line(event: Event) -> str:
    """What a guard said; one that stops the run says it in the message of its end too."""
    kind = {"note": "note", "warn": "warning"}.get(str(event.get("action")), "stopped by")
    step = number(event, "step")
    where = f" at step {step:.0f}" if step is not None else ""
    return f"{kind}: {event.get('name')}{where}: {event.get('message')} [{event.get('id')}]"
