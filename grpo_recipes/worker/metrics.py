"""metrics.jsonl: one line for each thing that was measured, readable while the run goes on."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any

from grpo_recipes.trust.redact import redact_value


class MetricsLog:
    """Appends events to metrics.jsonl: start, step, guard, evaluation, end; each is flushed, times are Unix.

    resume_step: the step that is gone on from, None for a beginning. What was measured later is trained again; what
    was told of the vLLM server of this run stays.
    """

    def __init__(self, path: Path, *, resume_step: int | None) -> None:
        _forget_after(path, -1 if resume_step is None else resume_step)
        self._file = path.open("a", encoding="utf-8")

    def write(self, event: str, step: int, **values: Any) -> None:
        """Writes one line. A float that JSON has no word for (NaN, infinity) becomes null."""
        line = {"event": event, "step": step, "time": round(time.time(), 3), **values}
        self._file.write(json.dumps(redact_value(_plain(line)), ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _forget_after(path: Path, step: int) -> None:
    """Removes the lines of steps that are trained again, and a last line that was cut off."""
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8")
    kept = "".join(line for line in text.splitlines(keepends=True) if _is_of(line, step))
    if kept == text:
        return  # someone may be reading on from its end
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(kept, encoding="utf-8")
    os.replace(temporary, path)


def _is_of(line: str, step: int) -> bool:
    """Whether a line is whole and of a step up to this one, or of the server."""
    try:
        event = json.loads(line)
        return line.endswith("\n") and bool(event["event"] == "server" or event["step"] <= step)
    except ValueError:
        return False
