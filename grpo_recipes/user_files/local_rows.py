"""Reads the first rows of a local data file: their content, and whether there are enough."""

import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import islice
from typing import NamedTuple

from grpo_recipes.contract.files.own_cache import read_cache, write_cache
from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.user_files.local_files import LARGEST_ROW, is_one_array

MOST_COUNTED = 10_000
"""Rows of a file to count, so that a large file costs no more than a small one."""
MOST_ROWS = 64
"""Rows whose content is checked before a run; preflight and the run check all."""
_MOST_CHARACTERS = 128 << 10
_MOST_READ = 32 << 20
"""Characters of a file to read for that; if they hold fewer rows, the rows are not counted."""


def first_row(path: str) -> Mapping[str, object] | None:
    """The first row of a .jsonl file, None for other files or if it cannot be read."""
    rows = first_rows(path)
    return rows[0][1] if rows and not isinstance(rows[0][1], str) else None


def first_rows(path: str) -> list[tuple[int, Mapping[str, object] | str]]:
    """The first rows of a .jsonl file by line, at most 64 in 128 KiB; a text for an invalid one, which is the last.

    Empty for other files, for a link to one, for a single array, and if nothing can be read.
    """
    if not (path.lower().endswith(".jsonl") and os.path.realpath(path).lower().endswith(".jsonl")):
        return []
    rows: list[tuple[int, Mapping[str, object] | str]] = []
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", errors="replace") as file:
            read = 0
            for line, text in enumerate(islice(_lines(file), MOST_ROWS), 1):
                read += len(text)
                if read > _MOST_CHARACTERS:
                    break
                if not rows and is_one_array(text):
                    break
                if text.strip():
                    rows.append((line, row_of(text)))
                    if isinstance(rows[-1][1], str):
                        break
    except (OSError, ValueError):
        pass
    return rows


def row_of(text: str) -> Mapping[str, object] | str:
    """The row of a line, or the error in it."""
    try:
        row = json.loads(text)
    except ValueError as error:
        return f"it is not JSON: {error}"
    except RecursionError:
        return "it is nested too deeply"
    return {} if row is None else row if isinstance(row, dict) else "it is not a JSON object"


def rows_up_to(path: str, most: int) -> int | None:
    """The number of rows of a .jsonl or .csv file, at most `most`; None if they were not counted."""
    if most > MOST_COUNTED:
        return None
    kind = os.path.splitext(path)[1].lower()
    try:
        with TextIOWrapper(
            open_regular(path), encoding="utf-8-sig", newline="" if kind == ".csv" else None, errors="replace"
        ) as file:
            if kind == ".jsonl":
                rows = (line for line in _lines(file) if line.strip())
                first = next(rows, "")
                return None if is_one_array(first) else bool(first) + sum(1 for _ in islice(rows, most - 1))
            if kind == ".csv":
                return max(0, sum(1 for _ in islice((row for row in csv.reader(_lines(file)) if row), most + 1)) - 1)
    except (OSError, ValueError, csv.Error):
        return None
    return None


def _lines(file: TextIOWrapper) -> Iterator[str]:
    """The lines of a file. Raises ValueError for one that is too long, or if too much was read."""
    read = 0
    while line := file.readline(LARGEST_ROW):
        read += len(line)
        if len(line) == LARGEST_ROW or read > _MOST_READ:
            raise ValueError("it is too large to be counted")
        yield line


_FILE = "prompts/%s.json"
_LARGEST_BYTES = 1000
_MOST_TOKENS = 1 << 30


class CountedPrompts(NamedTuple):
    """The lengths of a recipe's prompts. longest: tokens of the longest prompt. counted: how many were counted, of all
    rows. pixels: as in Update.
    """

    longest: int
    counted: int
    rows: int
    pixels: int = 0


def key_of(values: object, files: Iterable[str]) -> str:
    """The cache key for the lengths of prompts: the settings that make them, and the current files."""
    stamps = []
    for file in files:
        status = os.stat(file) if os.path.exists(file) else None
        stamps.append([file, None if status is None else [status.st_ino, status.st_size, status.st_mtime_ns]])
    return hashlib.sha256(json.dumps([values, stamps], sort_keys=True, default=str).encode()).hexdigest()


def read_counted(key: str) -> CountedPrompts | None:
    """The cached lengths, None if there are none or they cannot be read."""
    try:
        counted = CountedPrompts(**read_cache(_FILE % key, _LARGEST_BYTES))
    except TypeError:
        return None
    is_right = all(type(each) is int and 0 <= each < _MOST_TOKENS for each in counted) and all(counted[:3])
    return counted if is_right else None


def keep_counted(key: str, counted: CountedPrompts) -> None:
    """Caches the lengths; failures are ignored."""
    write_cache(_FILE % key, counted._asdict())
