"""Completions of a run that goes on, out of completions.jsonl, as lines for a person."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_recipes.contract.event_words import GAP
from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import open_to_read
from grpo_recipes.contract.metrics import COMPLETIONS_FILE, number

_TAIL = 4 << 20
_LONGEST_PROMPT, _LONGEST_COMPLETION = 72, 240


def read_samples(folder: str, step: float) -> list[Mapping[str, object]]:
    """The completions that were kept of the newest generation up to a step; none where none were kept.

    Each has prompt, completion, rewards by name, reward, tokens and ended, as the worker wrote them.
    """
    try:
        with open_to_read(Path(folder), COMPLETIONS_FILE) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read(_TAIL).split(b"\n")
    except OSError:
        return []
    for line in reversed(lines[1 if size > _TAIL else 0 : -1]):
        try:
            event = parsed(line)
        except ValueError:
            continue
        rows = event.get("rows") if isinstance(event, dict) else None
        if isinstance(event, dict) and isinstance(rows, list) and (number(event, "step") or 0) <= step:
            return [row for row in rows if isinstance(row, dict)]
    return []


def sample_lines(rows: Sequence[Mapping[str, object]], step: float) -> list[str]:
    """Completions with their rewards, three lines each."""
    return [line for row in rows for line in _lines(row, step)]


def _lines(row: Mapping[str, object], step: float) -> list[str]:
    rewards = row.get("rewards")
    named = {"reward": row.get("reward"), **(rewards if isinstance(rewards, Mapping) else {})}
    figures = [f"{name} {value:.4g}" for name in named if (value := number(named, name)) is not None]
    ended = [f"ended by {row.get('ended')}"] if row.get("ended") else []
    return [
        GAP.join([f"sample at step {step:.0f}", *map(_one_line, figures), *map(_one_line, ended)]),
        f"  {_one_line(row.get('prompt'), _LONGEST_PROMPT)}",
        f"  -> {_one_line(row.get('completion'), _LONGEST_COMPLETION)}",
    ]


def _one_line(value: object, most: int = _LONGEST_COMPLETION) -> str:
    """A text on one line, without what would steer a terminal; a long one keeps its end, which has the answer."""
    text = "".join(letter if letter.isprintable() else "�" for letter in " ".join(str(value).split()))
    return text if len(text) <= most else f"...{text[-most:]}"
