"""Writes metrics.jsonl: one line per event, readable while the run is going."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import open_to_append, open_to_read, write_whole
from grpo_recipes.contract.secrets.redact import redact_value

_LARGEST = 4 << 30
_LONGEST_LINE = 16 << 20


class MetricsLog:
    """Appends events to metrics.jsonl as they happen: start, step, guard, evaluation, end. Times are Unix times.

    resume_step: the step to resume from, None for a new run. Lines after it are removed because those steps are trained
    again; events of this run's vLLM server stay. on_event: called with each event that was written.
    """

    def __init__(self, path: Path, *, resume_step: float | None) -> None:
        forget_after(path, -1 if resume_step is None else resume_step)
        self.on_event: Callable[[str, int, Mapping[str, Any]], None] = lambda event, step, values: None
        self._path = path
        self._file = open_to_append(path.parent, path.name)

    def write(self, event: str, step: int, **values: Any) -> None:
        """Writes one line. Raises OSError. A float that JSON cannot represent (NaN, infinity) becomes null."""
        append_event(self._file, self._path, event, step, cast("dict[str, Any]", redact_value(_plain(values))))
        self.on_event(event, step, values)

    def sync(self) -> None:
        """Flushes all lines to disk, before the checkpoint that they belong to becomes valid."""
        os.fsync(self._file)


def append_event(file: int, path: Path, event: str, step: int, values: Mapping[str, Any]) -> None:
    """Appends a line atomically, even if another process appends at the same time. Raises OSError, with the path."""
    line = {"event": event, "step": step, "time": round(time.time(), 3), **values}
    rest = f"{json.dumps(line, ensure_ascii=False, allow_nan=False)}\n".encode()
    written = 0
    try:
        while rest:
            count = os.write(file, rest)
            written, rest = written + count, rest[count:]
    except OSError as problem:
        if written:
            os.ftruncate(file, os.fstat(file).st_size - written)
        problem.filename = str(path)
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def forget_after(path: Path, step: float) -> None:
    """Removes the lines of steps that are trained again, and damaged lines, whose number is printed."""
    try:
        steps = [_step(line) for line in _lines(path)]
    except FileNotFoundError:
        return
    damaged = sum(of is None for of in steps)
    if damaged:
        print(f"{path.name}: {damaged} damaged line{'s' if damaged != 1 else ''} left out", flush=True)
    is_kept = [of is not None and of <= step for of in steps]
    if not all(is_kept):  # otherwise leave the file alone: a reader may be following its end
        lines = (line for line, is_one in zip(_lines(path), is_kept, strict=False) if is_one)
        write_whole(path.parent, path.name, lines)


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file; a line longer than any event comes in parts. Raises OSError."""
    with open_to_read(path.parent, path.name, _LARGEST) as file:
        while line := file.readline(_LONGEST_LINE):
            yield line


def place_in_warm_start(step: float) -> float:
    """Returns where a step of the warm start is among the others: after step 0, before step 1."""
    return float(step * 2.0**-32)


def _step(line: bytes) -> float | None:
    """Returns the step of a line, None for a damaged one; events of the server count for all steps.

    An evaluation runs after the checkpoint of its step, so a run that resumes there repeats it. Step 0 has a checkpoint
    only if there is a warm start, which the first evaluation precedes.
    """
    try:
        event = cast("dict[str, Any]", parse_json(line if line.endswith(b"\n") else b""))
        after = 0.5 * (event["event"] == "evaluation" and (event["step"] > 0 or "warm_step" in event))
        if "warm_step" in event:
            return place_in_warm_start(event["warm_step"] + after)
        return -math.inf if event["event"] == "server" else event["step"] + after
    except (ValueError, KeyError, TypeError):
        return None
