"""The terminal display of a run: moving rows at the bottom, permanent lines above them. Imports rich.

The rows adapt to the width, dropping the least important parts first. Step, time left and reward are dropped last; they
are split over two rows, so that 30 columns suffice.
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
    """Some words of a row. rank: 0 is never dropped, the highest first. style: for a terminal with colours."""

    text: str
    rank: int
    style: str = ""


class RunProgress(NamedTuple):
    """The state of a run so far. step: its newest step. seconds_left: unknown until a step was timed.

    phase: the current phase of its start, since phase_began; "" after the first step. began: when it was started, both
    Unix times. warnings: the number of guard warnings.
    """

    began: float
    step: Event | None = None
    max_steps: float | None = None
    seconds_left: float | None = None
    evaluation: Event | None = None
    warnings: int = 0
    phase: str = "starting"
    phase_began: float | None = None


def rows(run: RunProgress, width: int, now: float, marks: str = "━─") -> list[list[Part]]:
    """The rows for a terminal of this width. marks: the characters of a bar, done and remaining."""
    if run.step is None:
        since = run.began if run.phase_began is None else run.phase_began
        phase = [Part(run.phase, 0, "bold"), Part(clock(now - since), 1)]
        if run.phase_began is not None:
            phase.append(Part(f"{clock(now - run.began)} so far", 2, "dim"))
        return [fit_parts(phase, width)]
    words = step_parts(run.step, run.seconds_left)
    where = fit_parts(list(_where(run, words, now)), width)
    figures = fit_parts(list(_figures(run, words)), width)
    done = None if not run.max_steps else (number(run.step, "step") or 0.0) / run.max_steps
    return [with_bar(where, width, done, marks), *([figures] if figures else [])]


def _where(run: RunProgress, words: Mapping[str, str], now: float) -> Iterator[Part]:
    yield Part(step_head(run.step or {}, run.max_steps), 0, "bold")
    if "left" in words:
        yield Part(words["left"], 1, "cyan")
    if "speed" in words:
        yield Part(words["speed"], 2)
    yield Part(f"{clock(now - run.began)} so far", 3, "dim")


def _figures(run: RunProgress, words: Mapping[str, str]) -> Iterator[Part]:
    if "reward" in words:
        yield Part(words["reward"], 0, "bold green")
    held_out = None if run.evaluation is None else number(run.evaluation, "reward")
    if held_out is not None:
        yield Part(f"held out{of_set(run.evaluation or {})} {held_out:.3f}", 2)
    if "groups" in words:
        yield Part(words["groups"], 3)
    if "truncated" in words:
        yield Part(words["truncated"], 4)
    for key, name, rank in ((MEAN_LENGTH, "length", 5), (KL, "kl", 6), (ENTROPY, "entropy", 7)):
        value = number(run.step or {}, key)
        if value is not None:
            yield Part(f"{name} {value:.3g}", rank, "dim")
    if run.warnings:
        yield Part(f"{run.warnings} warning{'s' if run.warnings > 1 else ''}", 1, "yellow")


def columns(parts: Sequence[Part]) -> int:
    """The total width of the parts in columns."""
    return sum(len(part.text) for part in parts) + len(GAP) * max(len(parts) - 1, 0)


def fit_parts(parts: Sequence[Part], width: int) -> list[Part]:
    """The parts that fit; the last remaining one is cut if it does not."""
    row = list(parts)
    while columns(row) > width and len(row) > 1:
        row.remove(max(row, key=lambda part: part.rank))
    return [part._replace(text=part.text[:width]) for part in row]


def with_bar(parts: list[Part], width: int, done: float | None, marks: str) -> list[Part]:
    """A row with a bar after its first part that fills the width; no bar if it would be too short."""
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
    """A display of rows that follow the terminal's width; phases, evaluations and guards stay as lines.

    Uses rich's colours: none if NO_COLOR is set.
    """

    def __init__(self, echo: TextIO, view: View, began: float) -> None:
        self._seen = RunProgress(began)
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
            self._live.transient = True  # "starting" is meaningless after the end of a run
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Asks the console for its width each time, since the window may be resized.
        for row in rows(self._seen, console.width - 1, time.time(), **self._marks):
            yield _text(row)

    def say(self, line: str) -> None:
        self._print(line, "", soft_wrap=True)  # so a path in it can be copied

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
            # Restarts of a job have phases too.
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
    for index, part in enumerate(row):
        text.append(GAP if index else "").append(redact(part.text), part.style)
    return text
