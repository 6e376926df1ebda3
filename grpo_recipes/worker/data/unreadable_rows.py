"""Finds the row of a data file that cannot be read, since datasets does not say which one."""

import contextlib
import json
from itertools import islice
from pathlib import Path

from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused

_LONGEST_LINE = 100
_LONGEST_CAUSE = 300
_MOST_FILES = 1000


def unreadable(problem: Exception, data: Data, where: str) -> Refused | None:
    """Returns what is wrong with a local file that datasets could not load; None if the file is not the cause.

    where: the recipe section in messages. A full disk, or a missing file, is not the file's fault.
    """
    path = Path(data.path)
    for file in _json_files(path, data):
        if (broken := _find_broken_line(file)) is not None:
            number, line, why = broken
            return Refused.of(
                f"{where}: {file}:{number}: the line is not JSON",
                because=f"{why}, in {line[:_LONGEST_LINE]!r}",
                fix='fix the line, or remove it: each line is one row, {"column": value, ...}',
            )
    *_, first = all_causes = list(causes(problem))
    if any(isinstance(cause, OSError) for cause in all_causes):
        return None
    return Refused.of(
        f"{where}: {path} cannot be read as {data.format or 'rows'}",
        because=" ".join(f"{type(first).__name__}: {first}".split())[:_LONGEST_CAUSE],
        fix="give every row the same columns, and every column values of one type",
    )


def _json_files(path: Path, data: Data) -> list[Path]:
    if data.source == "file":
        return [path] if data.format == "json" else []
    files = (file for file in path.rglob("*") if file.suffix.lower() in (".json", ".jsonl") and file.is_file())
    return sorted(islice(files, _MOST_FILES))


def _find_broken_line(path: Path) -> tuple[int, str, str] | None:
    """Returns number, text and error of the first line that is not a row; None if all are, or for one list of rows."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.decode("utf-8", errors="replace").strip()
            if number == 1 and line.startswith("["):
                return None
            try:
                row = json.loads(line or "null")
            except (ValueError, RecursionError) as problem:
                return number, line, str(problem)
            if row is not None and not isinstance(row, dict):
                return number, line, f"it is not a mapping but {type(row).__name__}"
    return None
