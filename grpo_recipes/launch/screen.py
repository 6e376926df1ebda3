"""The terminal while a run goes on: rows that move, and lines that stay above them. Imports rich.

The rows are laid out for the width: what matters least goes first. Step, time left and reward are the last to go; they
stand in two rows, so that 30 columns have room for them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from grpo_recipes.contract.event_words import GAP, clock, event_lines, phase_line, step_head, step_line, step_parts
from grpo_recipes.contract.metric_names import ENTROPY, KL, MEAN_LENGTH
from grpo_recipes.contract.metrics import Event, number, of_set
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.progress import Estimate, View, is_over

WIDEST_BAR, NARROWEST_BAR = 30, 6


class Part(NamedTuple):
    """Some words of a row. rank: 0 is never left out, the highest first. style: for a terminal with colours."""

    text: str
    rank: int
    style: str = ""


class SeenRun(NamedTuple):
    """What was seen of a run so far. step: its newest step. seconds_left: unknown until a step took its time.

    phase: what its start is busy with, since phase_began; "" when the first step is over. began: when it was started,
    both Unix times. warnings: how often guards warned.
    """

    began: float
    step: Event | None = None
    max_steps: float | None = None
    seconds_left: float | None = None
    evaluation: Event | None = None
    warnings: int = 0
    phase: str = "starting"
    phase_began: float | None = None


def rows(seen: SeenRun, width: int, now: float, marks: str = "━─") -> list[list[Part]]:
    """The rows for a terminal of so many columns. marks: what a bar is made of, done and to do."""
    if seen.step is None:
        since = seen.began if seen.phase_began is None else seen.phase_began
        phase = [Part(seen.phase, 0, "bold"), Part(clock(now - since), 1)]
        if seen.phase_began is not None:
            phase.append(Part(f"{clock(now - seen.began)} so far", 2, "dim"))
        return [fitted(phase, width)]
    words = step_parts(seen.step, seen.seconds_left)
    where = fitted(list(_where(seen, words, now)), width)
    figures = fitted(list(_figures(seen, words)), width)
    done = None if not seen.max_steps else (number(seen.step, "step") or 0.0) / seen.max_steps
    return [with_bar(where, width, done, marks), *([figures] if figures else [])]


def _where(seen: SeenRun, words: Mapping[str, str], now: float) -> Iterator[Part]:
    yield Part(step_head(seen.step or {}, seen.max_steps), 0, "bold")
    if "left" in words:
        yield Part(words["left"], 1, "cyan")
    if "speed" in words:
        yield Part(words["speed"], 2)
    yield Part(f"{clock(now - seen.began)} so far", 3, "dim")


def _figures(seen: SeenRun, words: Mapping[str, str]) -> Iterator[Part]:
    if "reward" in words:
        yield Part(words["reward"], 0, "bold green")
    held_out = None if seen.evaluation is None else number(seen.evaluation, "reward")
    if held_out is not None:
        yield Part(f"held out{of_set(seen.evaluation or {})} {held_out:.3f}", 2)
    if "groups" in words:
        yield Part(words["groups"], 3)
    if "truncated" in words:
        yield Part(words["truncated"], 4)
    for key, name, rank in ((MEAN_LENGTH, "length", 5), (KL, "kl", 6), (ENTROPY, "entropy", 7)):
        value = number(seen.step or {}, key)
        if value is not None:
            yield Part(f"{name} {value:.3g}", rank, "dim")
    if seen.warnings:
        yield Part(f"{seen.warnings} warning{'s' if seen.warnings > 1 else ''}", 1, "yellow")


def columns(parts: Sequence[Part]) -> int:
    """The columns that parts take beside each other."""
    return sum(len(part.text) for part in parts) + len(GAP) * max(len(parts) - 1, 0)


def fitted(parts: Sequence[Part], width: int) -> list[Part]:
    """The parts for which there is room; the last one to stay is cut where it has none."""
    kept = list(parts)
    while columns(kept) > width and len(kept) > 1:
        kept.remove(max(kept, key=lambda part: part.rank))
    return [part._replace(text=part.text[:width]) for part in kept]


def with_bar(parts: list[Part], width: int, done: float | None, marks: str) -> list[Part]:
    """A row with a bar behind its first part, as wide as there is room; none where it would say nothing."""
    room = min(WIDEST_BAR, width - columns(parts) - len(GAP))
    if done is None or room < NARROWEST_BAR:
        return parts
    filled = min(room, int(done * room))
    bar = [Part(marks[0] * filled + marks[1] * (room - filled), 0, "blue")]
    return [*parts[:1], *bar, *parts[1:]]


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
            shown = self._seen.evaluation or {}
            if shown.get("step") != event.get("step") or shown.get("set") == event.get("set"):  # the first set decides
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
