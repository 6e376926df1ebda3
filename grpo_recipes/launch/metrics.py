"""metrics.jsonl while it grows: one JSON object per line."""

import json
from collections.abc import Mapping

METRICS_FILE = "metrics.jsonl"
Event = Mapping[str, object]


def read_new(path: str, offset: int) -> tuple[list[Event], int]:
    """The events after byte `offset`, and the offset to go on from; a line without its end waits for it.

    A missing file has no events; one that became shorter is read from its start; other JSON is left out.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size < offset:
                offset = 0
            if size == offset:
                return [], offset
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return [], 0
    except OSError:
        return [], offset  # of a disk that fails; how the run ended says more
    complete = content[: content.rfind(b"\n") + 1]
    return [event for event in map(_event, complete.splitlines()) if event is not None], offset + len(complete)


def _event(line: bytes) -> Event | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def number(event: Mapping[str, object], key: str) -> float | None:
    """A finite figure of an event, or None when it is missing or no number."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < float("inf") else None


def evaluation_text(event: Mapping[str, object]) -> str:
    """The figures of an evaluation on one line: the whole reward, then each by its name, then the rows."""
    rewards = event.get("rewards")
    figures = (
        {"reward": event, **dict.fromkeys(rewards, rewards)} if isinstance(rewards, Mapping) else {"reward": event}
    )
    parts = [f"{name} {value:.4g}" for name in figures if (value := number(figures[name], name)) is not None]
    rows = number(event, "count")
    return "  ".join(parts + ([f"({rows:.0f} rows)"] if rows is not None else []))
