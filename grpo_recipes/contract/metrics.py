"""metrics.jsonl while it grows: one JSON object per line."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import open_to_read

METRICS_FILE = "metrics.jsonl"
LARGEST = 1 << 30
_PART = 16 << 20
_PARTS_AT_ONCE = 16
Event = Mapping[str, object]


def read_new(path: str, offset: int) -> tuple[list[Event], int]:
    """The events after byte `offset`, and the offset to go on from; a line without its end waits for it.

    A missing file has no events; one that became shorter is read from its start; other JSON is left out, and so is a
    line of 16 MiB. No more than 256 MiB are read at once, and nothing of a file of more than a GiB.
    """
    events: list[Event] = []
    try:
        with open_to_read(Path(path).parent, Path(path).name, LARGEST) as file:
            if file.seek(0, 2) < offset:
                offset = 0
            for _ in range(_PARTS_AT_ONCE):
                file.seek(offset)
                content = file.read(_PART)
                complete = content[: content.rfind(b"\n") + 1]
                if not complete and len(content) < _PART:
                    break
                offset += len(complete or content)
                events += [event for event in map(_event, complete.splitlines()) if event is not None]
    except FileNotFoundError:
        return [], 0
    except OSError:
        pass  # of a disk that fails; how the run ended says more
    return events, offset


def read_all(path: str) -> Iterator[Event]:
    """The events of a file, one after the other, as read_new."""
    offset, before = 0, -1
    while offset != before:
        before = offset
        events, offset = read_new(path, offset)
        yield from events


def _event(line: bytes) -> Event | None:
    try:
        value = parsed(line)
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
