"""What is seen while a run trains: one moving line on a terminal, some plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from grpo_recipes.launch.metrics import Event, evaluation_text, number
from grpo_recipes.trust.redact import redact

_SHORTEST_PAUSE_S = 5.0
_REMEMBERED_STEPS = 20


class Progress(AbstractContextManager["Progress"], Protocol):
    """Shows events of metrics.jsonl as they come, and lines of talk between them."""

    def show(self, event: Event) -> None:
        """Shows one event."""

    def say(self, line: str) -> None:
        """Prints one line that stays."""


def progress(echo: TextIO) -> Progress:
    """The progress that fits a stream: a moving line on a terminal, plain lines elsewhere."""
    return TerminalProgress(echo) if echo.isatty() else PlainProgress(echo)


def step_text(event: Mapping[str, object], seconds_left: float | None) -> str:
    """One step in words; what the event does not tell is left out."""
    parts = []
    reward = number(event, "reward")
    if reward is not None:
        parts.append(f"reward {reward:.3f}")
    for key, words in (
        ("frac_reward_zero_std", "groups without variance"),
        ("completions/clipped_ratio", "truncated"),
    ):
        share = number(event, key)
        if share is not None:
            parts.append(f"{words} {share:.0%}")
    seconds = number(event, "step_time")
    if seconds is not None:
        parts.append(f"{seconds:.3g} s/step")
    if seconds_left is not None:
        parts.append(f"eta {clock(seconds_left)}")
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as 0:02:05; days are counted as hours."""
    whole = round(max(seconds, 0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


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
    """A bar with the newest step beside it; evaluations stay above it as lines."""

    def __init__(self, echo: TextIO) -> None:
        # Imported here, since only `run` on a terminal needs it and it costs 50 ms.
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=Console(file=echo),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("starting", total=None, text="")
        self._estimate = Estimate()
        self._max_steps: float | None = None

    def __enter__(self) -> "TerminalProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        self._bar.console.print(redact(line), markup=False, highlight=False, soft_wrap=True)

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
        left = self._estimate.seconds_left({"max_steps": self._max_steps, **event}, time.monotonic())
        of = f"/{self._max_steps:.0f}" if self._max_steps is not None else ""
        self._bar.update(
            self._task,
            description=f"step {step:.0f}{of}",
            completed=step,
            total=self._max_steps,
            text=step_text(event, left),
        )


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
