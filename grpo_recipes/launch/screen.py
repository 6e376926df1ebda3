"""The terminal while a run goes on: rows that move, and lines that stay above them. Imports rich."""

import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from grpo_recipes.contract.event_words import GAP, event_lines, phase_line, step_line
from grpo_recipes.contract.metrics import Event, number
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.layout import Part, SeenRun, rows
from grpo_recipes.launch.progress import Estimate, View, is_over

_FRAMES_PER_SECOND = 2
_STYLES = {"warn": "yellow", "stop": "red"}
_ASCII_MARKS = "#."


class Screen:
    """What was seen so far, as rows that follow the width; phases, evaluations and guards stay as lines.

    Colours are rich's: none where NO_COLOR is set.
    """

    def __init__(self, echo: TextIO, view: View, began: float) -> None:
        self._seen = SeenRun(began)
        self.view = view
        self._estimate = Estimate()
        self._console = Console(file=echo, highlight=False, markup=False)
        self._marks = {} if self._console.encoding.startswith("utf") else {"marks": _ASCII_MARKS}
        self._live = Live(self, console=self._console, refresh_per_second=_FRAMES_PER_SECOND)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._seen.step is None:
            self._live.transient = True  # "starting" says nothing of a run that has ended
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Of the console, which is asked each time, so that a window may change its width.
        for row in rows(self._seen, console.width - 1, time.time(), **self._marks):
            yield _text(row)

    def say(self, line: str) -> None:
        self._print(line, "", soft_wrap=True)  # a path in it can be copied

    def _print(self, line: str, style: str, *, soft_wrap: bool = False) -> None:
        self._console.print(Text(redact(line), style), soft_wrap=soft_wrap)

    def note(self, line: str) -> None:
        self.say(line)

    def show(self, event: Event) -> None:
        kind = event.get("event")
        self._seen = self._seen._replace(max_steps=number(event, "max_steps") or self._seen.max_steps)
        for line, style in self._lines(event):
            self._print(line, style)
        if kind == "phase":
            # A start behind the first one of a job has its phases too.
            step = self._seen.step if is_over(event) else None
            name, began = str(event.get("name")), number(event, "began")
            self._seen = self._seen._replace(phase=name, phase_began=began, step=step)
        elif kind == "evaluation":
            self._seen = self._seen._replace(evaluation=event)
        elif kind == "guard" and event.get("action") == "warn":
            self._seen = self._seen._replace(warnings=self._seen.warnings + 1)
        elif kind == "step" and number(event, "step") is not None:
            left = self._estimate.seconds_left({"max_steps": self._seen.max_steps, **event}, time.time())
            self._seen = self._seen._replace(step=event, seconds_left=left)
            if self.view.level == "verbose":
                self.say(step_line(event, self._seen.max_steps, left))
            if self._seen.max_steps == number(event, "step"):
                self._live.refresh()

    def _lines(self, event: Event) -> Iterator[tuple[str, str]]:
        if event.get("event") == "phase":
            if is_over(event):
                yield phase_line(event), "dim"
            return
        style = _STYLES.get(str(event.get("action")), "") if event.get("event") == "guard" else ""
        for line in event_lines(event):
            yield line, style


def _text(row: list[Part]) -> Text:
    text = Text(no_wrap=True, overflow="crop", end="\n")
    for place, part in enumerate(row):
        text.append(GAP if place else "").append(redact(part.text), part.style)
    return text
