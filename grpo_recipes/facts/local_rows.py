"""What the first rows of a local data file say: the first one, and whether there are enough."""

import csv
import json
import os
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from itertools import islice

from grpo_recipes.facts.local_files import LARGEST_ROW
from grpo_recipes.facts.regular_file import open_regular

MOST_COUNTED = 10_000
"""Rows of a file that are looked at, so that a large file costs no more than a small one."""
_MOST_READ = 32 << 20
"""Characters of a file that are read for them; fewer rows in so much are not counted."""


def first_row(path: str) -> Mapping[str, object] | None:
    """The first row of a .jsonl file, None for other files and for what cannot be read."""
    if os.path.splitext(path)[1].lower() != ".jsonl":
        return None
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace") as file:
            row = json.loads(file.readline(LARGEST_ROW))
    except (OSError, ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def rows_up_to(path: str, most: int) -> int | None:
    """The rows of a .jsonl or .csv file, at most `most` of them; None when they were not counted."""
    if most > MOST_COUNTED:
        return None
    kind = os.path.splitext(path)[1].lower()
    try:
        with TextIOWrapper(
            open_regular(path), encoding="utf-8", newline="" if kind == ".csv" else None, errors="replace"
        ) as file:
            if kind == ".jsonl":
                return sum(1 for _ in islice((line for line in _lines(file) if line.strip()), most))
            if kind == ".csv":
                return max(0, sum(1 for _ in islice((row for row in csv.reader(_lines(file)) if row), most + 1)) - 1)
    except (OSError, ValueError, csv.Error):
        return None
    return None


def _lines(file: TextIOWrapper) -> Iterator[str]:
    """The lines of a file. Raises ValueError for one that is longer than any row, and where too much was read."""
    read = 0
    while line := file.readline(LARGEST_ROW):
        read += len(line)
        if len(line) == LARGEST_ROW or read > _MOST_READ:
            raise ValueError("it is too large to be counted")
        yield line
