"""The tables of data/, which say what becomes of keys that need no thought."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


@cache
def table_of(name: str) -> Mapping[str, Any]:
    """A table by its file's name without .json."""
    value: Mapping[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return value


def rows_of(part: str) -> Mapping[str, Any]:
    """A part of the table of releases."""
    rows: Mapping[str, Any] = table_of("releases")[part]
    return rows
