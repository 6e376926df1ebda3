"""How long the prompts of a recipe are, as its preflight counted them on this machine."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.facts.source.cache import cache_folder

_LARGEST_BYTES = 1000
_MOST_TOKENS = 1 << 30


class CountedPrompts(NamedTuple):
    """longest: tokens of the longest prompt. counted: how many were counted, of all rows."""

    longest: int
    counted: int
    rows: int


def key_of(values: object, files: Iterable[str]) -> str:
    """What the lengths of prompts are kept under: the settings that make them, and the files as they are now."""
    stamps = []
    for file in files:
        status = os.stat(file) if os.path.exists(file) else None
        stamps.append([file, None if status is None else [status.st_ino, status.st_size, status.st_mtime_ns]])
    return hashlib.sha256(json.dumps([values, stamps], sort_keys=True, default=str).encode()).hexdigest()


def counted_prompts(key: str) -> CountedPrompts | None:
    """What was kept, None where nothing was, or where it cannot be read."""
    try:
        value = json.loads(read_text(str(_file(key)), _LARGEST_BYTES))
        counted = CountedPrompts(**value)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return counted if all(type(each) is int and 0 < each < _MOST_TOKENS for each in counted) else None


def keep_counted(key: str, counted: CountedPrompts) -> None:
    """Keeps it; a cache that cannot be written is left alone."""
    try:
        file = _file(key)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(json.dumps(counted._asdict()), encoding="utf-8")
    except OSError:
        return


def _file(key: str) -> Path:
    """Raises FileNotFoundError for a user without a home."""
    facts = cache_folder()
    if facts is None:
        raise FileNotFoundError(key)
    return facts.with_name("prompts") / f"{key}.json"
