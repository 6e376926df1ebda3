"""Finds the row of a data file that cannot be read, since datasets does not say which one."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import wrong_prompt
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.images import wrong_prompt_for_images

_LONGEST_LINE = 100
_LONGEST_CAUSE = 300
_MOST_FILES = 1000
_AT_ONCE = 1000


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


# Limits on time and memory for what a recipe's templates compute.


# Checks of rows that could be read: their own prompts, and the names of their environments.

ENVIRONMENT = "environment"


def check_prompts(rows: Any, data: Data, where: str, places: Sequence[int]) -> None:
    """Raises Refused for a prompt in the data that TRL does not accept."""
    for index, prompt in zip(places, _values(rows, "prompt"), strict=True):
        if reason := wrong_prompt(prompt) or (wrong_prompt_for_images(prompt) if data.images else None):
            raise Refused.of(
                f"{where}: the prompt of row {index + 1} cannot be used",
                because=reason,
                fix=f"leave such rows out of {data.path}, or make their prompts with {where}.prompt",
            )


def check_environments(rows: Any, data: Data, where: str, places: Sequence[int]) -> None:
    """Raises Refused for a row whose environment is not in the plan."""
    if not data.environments:
        return
    known = ", ".join(data.environments)
    if ENVIRONMENT not in rows.column_names:
        raise Refused.of(
            f"{where}: the rows have no column `{ENVIRONMENT}`",
            because=f"it names each row's environment: {known}",
            fix=f'{where}.columns: {{{ENVIRONMENT}: "{data.environments[0]}"}}, or a template over the row',
        )
    for index, name in zip(places, _values(rows, ENVIRONMENT), strict=True):
        if name not in data.environments:
            raise Refused.of(
                f"{where}: row {index + 1} has the environment {name!r}",
                because=f"the environments are {known}",
                fix=f"correct its column `{ENVIRONMENT}`, or leave such rows out with a filter",
            )


def _values(rows: Any, column: str) -> Iterator[Any]:
    """Yields the values of a column, read in batches: rows[column] takes six times as long."""
    for batch in rows.select_columns(column).iter(_AT_ONCE):
        yield from batch[column]
