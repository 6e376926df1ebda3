"""Finds the row of a data file that cannot be read, since datasets does not say which one."""

import contextlib
import json
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import wrong_prompt
from grpo_recipes.worker._shared.inputs import Refused
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
        if (broken := _broken_line(file)) is not None:
            number, line, why = broken
            return Refused.of(
                f"{where}: {file}:{number}: the line is not JSON",
                because=f"{why}, in {line[:_LONGEST_LINE]!r}",
                fix='fix the line, or remove it: each line is one row, {"column": value, ...}',
            )
    *_, first = found = list(causes(problem))
    if any(isinstance(one, OSError) for one in found):
        return None
    return Refused.of(
        f"{where}: {path} cannot be read as {data.format or 'rows'}",
        because=" ".join(f"{type(first).__name__}: {first}".split())[:_LONGEST_CAUSE],
        fix="give every row the same columns, and every column values of one type",
    )


def _json_files(path: Path, data: Data) -> list[Path]:
    if data.source == "file":
        return [path] if data.format == "json" else []
    found = (file for file in path.rglob("*") if file.suffix.lower() in (".json", ".jsonl") and file.is_file())
    return sorted(islice(found, _MOST_FILES))


def _broken_line(path: Path) -> tuple[int, str, str] | None:
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


SECONDS = 2.0
"""CPU seconds for one text; a long prompt takes a thousandth of a second."""
MEMORY = 512 << 20
"""Bytes beyond what the process already uses."""


class TooMuch(BaseException):
    """A template exceeded its limits. Not an Exception: jinja2 catches those of a constant and tries again."""


@contextlib.contextmanager
def bounded(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[Callable[[], object]]:
    """Raises TooMuch if the block exceeds `seconds` of CPU time or `memory` bytes.

    Yields a function that restarts the clock, for a block that renders several texts; it costs a hundredth of a block.
    The sandbox alone does not stop `'a' * 10**10` or nested loops. The kernel enforces both limits; neither applies
    outside of the main thread, or if the system does not support it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, _too_long)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        _limit_memory(_address_space() + memory, soft, hard)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
        yield lambda: signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    except MemoryError:
        raise TooMuch(f"it needs more than {memory >> 20} MiB of memory") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_long(*_: object) -> None:
    raise TooMuch("it takes too long")


def _address_space() -> int:
    """Returns this process's address space in bytes, or without /proc a number so large that nothing is limited."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 60


def _limit_memory(wanted: int, soft: int, hard: int) -> None:
    known = [one for one in (wanted, soft, hard) if one != resource.RLIM_INFINITY]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (min(known), hard))


# Checks of rows that could be read: their own prompts, and the names of their environments.

ENVIRONMENT = "environment"


def check_prompts(rows: Any, data: Data, where: str, places: Sequence[int]) -> None:
    """Raises Refused for a prompt in the data that TRL does not accept."""
    for place, prompt in zip(places, _values(rows, "prompt"), strict=True):
        if reason := wrong_prompt(prompt) or (wrong_prompt_for_images(prompt) if data.images else None):
            raise Refused.of(
                f"{where}: the prompt of row {place + 1} cannot be used",
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
    for place, name in zip(places, _values(rows, ENVIRONMENT), strict=True):
        if name not in data.environments:
            raise Refused.of(
                f"{where}: row {place + 1} has the environment {name!r}",
                because=f"the environments are {known}",
                fix=f"correct its column `{ENVIRONMENT}`, or leave such rows out with a filter",
            )


def _values(rows: Any, column: str) -> Iterator[Any]:
    """Yields the values of a column, read in batches: rows[column] takes six times as long."""
    for batch in rows.select_columns(column).iter(_AT_ONCE):
        yield from batch[column]
