"""What the first rows of a local data file say: the first one, and whether there are enough."""

import csv
import json
import os
from collections.abc import Mapping
from io import TextIOWrapper
from itertools import islice

from grpo_recipes.facts.local_files import LARGEST_ROW
from grpo_recipes.facts.regular_file import open_regular

MOST_COUNTED = 10_000
"""Rows of a file that are looked at, so that a large file costs no more than a small one."""


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
                return sum(1 for _ in islice((line for line in file if line.strip()), most))
            if kind == ".csv":
                return max(0, sum(1 for _ in islice((row for row in csv.reader(file) if row), most + 1)) - 1)
    except (OSError, csv.Error):
        return None
    return None
