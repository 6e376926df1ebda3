"""Yields the events of a run folder while its run continues, each once."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grpo_recipes.contract.event_words import GAP
from grpo_recipes.contract.files.folder_files import status
from grpo_recipes.contract.metrics import COMPLETIONS_FILE, METRICS_FILE, Event, mapping, number, read_new, read_tail
from grpo_recipes.contract.run_record import RECORD_FILE, read_record
from grpo_recipes.launch.progress import NORMAL, Due, View


class RunEvents:
    """Phases of a run's start from run.json, events of metrics.jsonl, and samples after reported steps.

    since: skip older ones. view: the number of samples, and whether every step has them.
    """

    def __init__(self, folder: str, since: float, view: View = NORMAL) -> None:
        self._folder, self._view, self._due = folder, view, Due()
        self._max_steps: float | None = None
        self._newest = self._since = since
        self._offset = 0
        self._looked: object = None
        self._told: dict[float, bool] = {}

    def new(self) -> Iterator[Event]:
        """The events since the last call, oldest first; a phase both when it begins and when it ends."""
        phases = [(when, event) for when, event in self._phases() if when >= self._since]
        for _, event in sorted([*phases, *self._metric_events()], key=lambda pair: pair[0]):
            yield event
            yield from self._samples(event)

    def _metric_events(self) -> Iterator[tuple[float, Event]]:
        """Events of metrics.jsonl, each with its time."""
        events, self._offset = read_new(os.path.join(self._folder, METRICS_FILE), self._offset)
        for event in events:
            # A resumed start rewrites the file, including events that were already shown.
            when = number(event, "time") or self._newest
            if when >= self._newest:
                self._newest = when
                yield when, event

    def _samples(self, event: Event) -> Iterator[Event]:
        self._max_steps = number(event, "max_steps") or self._max_steps
        step = number(event, "step")
        if self._view.samples and event.get("event") == "step" and step is not None:
            is_due = self._due.is_due(step, self._max_steps, time.monotonic())
            if is_due or self._view.level == "verbose":
                rows = read_samples(self._folder, step)[: self._view.samples]
                yield {"event": "samples", "lines": sample_lines(rows, step)}

    def _phases(self) -> Iterator[tuple[float, Event]]:
        """Phases that began or ended since the last call, each with that time."""
        version = record_version(self._folder)
        if version == self._looked:
            return
        self._looked = version
        record = read_record(self._folder)
        for phase in (record.phases if record is not None else None) or []:
            if isinstance(phase, Mapping):
                began, seconds = number(phase, "began") or 0.0, number(phase, "seconds")
                is_over = seconds is not None
                if self._told.get(began) is not is_over:
                    self._told[began] = is_over
                    yield began + (seconds or 0.0), {"event": "phase", **phase}


def record_version(folder: str) -> tuple[int, int] | None:
    """A value that changes with every write of run.json, to detect an earlier attempt's record."""
    try:
        entry = status(Path(folder), RECORD_FILE)
    except OSError:
        return None
    return None if entry is None else (entry.st_ino, entry.st_mtime_ns)


_TAIL = 4 << 20
_LONGEST_PROMPT, _LONGEST_COMPLETION = 72, 240


def read_samples(folder: str, step: float) -> list[Mapping[str, object]]:
    """The kept completions of the newest generation up to a step, if any.

    Each has prompt, completion, rewards by name, reward, tokens and ended, as the worker wrote them.
    """
    for event in read_tail(Path(folder), COMPLETIONS_FILE, _TAIL):
        rows = None if event is None else event.get("rows")
        if event is not None and isinstance(rows, list) and (number(event, "step") or 0) <= step:
            return [row for row in rows if isinstance(row, dict)]
    return []


def sample_lines(rows: Sequence[Mapping[str, object]], step: float) -> list[str]:
    """Completions with their rewards, three lines each."""
    return [line for row in rows for line in _lines(row, step)]


def _lines(row: Mapping[str, object], step: float) -> list[str]:
    named = {"reward": row.get("reward"), **mapping(row, "rewards")}
    figures = [f"{name} {value:.4g}" for name in named if (value := number(named, name)) is not None]
    ended = [f"ended by {row.get('ended')}"] if row.get("ended") else []
    return [
        GAP.join([f"sample at step {step:.0f}", *map(_one_line, figures), *map(_one_line, ended)]),
        f"  {_one_line(row.get('prompt'), _LONGEST_PROMPT)}",
        f"  -> {_one_line(row.get('completion'), _LONGEST_COMPLETION)}",
    ]


def _one_line(value: object, most: int = _LONGEST_COMPLETION) -> str:
    """A text on one line, without terminal escapes; a long one keeps its end, which has the answer."""
    text = "".join(letter if letter.isprintable() else "�" for letter in " ".join(str(value).split()))
    return text if len(text) <= most else f"...{text[-most:]}"
