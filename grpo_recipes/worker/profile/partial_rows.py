"""The rows of a profile that is not whole yet: a file beside the output, which is renamed when nothing is missing."""

import contextlib
import fcntl
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import open_in_place, remove, rename
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.profile import ASKED, recorded_profile
from grpo_recipes.worker._shared.inputs import Refused

# A command that was killed leaves its worker for about a second.
_LONGEST_WAIT_S = 5.0
_READ_AT_ONCE = 1 << 20


class NotWritten(Mistake):
    """The rows cannot be written: where, why, and what is there already. The command exits with 1."""


class PartialRows:
    """Lines of JSON, which only ever become more. rows: what the lines say, in their order."""

    def __init__(self, path: str, output: str, descriptor: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._path, self._output, self._descriptor = path, output, descriptor

    def go_on(self, asked: str, whole: int, count: int) -> None:
        """Keeps what an earlier attempt wrote. whole: rows that are answered together; count: of all rows.

        Raises Refused where it was asked for something else.
        """
        content = b"".join(iter(lambda: os.read(self._descriptor, _READ_AT_ONCE), b""))
        lines = content.split(b"\n")[:-1]  # the last one has no end yet
        known = list(itertools.takewhile(bool, map(_row, lines)))
        profiles = [recorded_profile(row) or {} for row in known or [{}] * bool(lines)]
        is_row = content[:1] in (b"", b"{")  # without an end, too; anything else is not of a profile, and stays
        if not is_row or any(one.get(ASKED) != asked for one in profiles) or len(known) > count:
            raise Refused.of(
                f"{self._path} has rows of a different profile",
                because="a profile with two models, recipes or numbers of samples would be of neither",
                fix=f"rm {self._path}, or a different -o",
            )
        kept = count if len(known) == count else len(known) // whole * whole
        self.rows = known[:kept]
        os.ftruncate(self._descriptor, sum(len(line) + 1 for line in lines[:kept]))
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def add(self, rows: list[dict[str, Any]], text: bytes) -> None:
        """Adds rows, and returns when they are on the disk. Raises NotWritten."""
        try:
            left = memoryview(text)
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as problem:
            raise NotWritten.of(
                f"{self._path}: {os.strerror(problem.errno or 0)}",
                because=f"{len(self.rows)} rows are answered, and stay there",
                fix="free some space, then the same command goes on",
            ) from problem
        self.rows += rows

    def finish(self) -> None:
        """Gives the file the name of the output."""
        refuse_existing(self._output)
        rename(Path(self._path).parent, *map(os.path.basename, (self._path, self._output)))


@contextlib.contextmanager
def partial_rows(path: str, output: str) -> Iterator[PartialRows]:
    """The file, which no other process writes meanwhile; an empty one goes again. Raises Refused, NotWritten."""
    refuse_existing(output)
    folder, name = Path(path).parent, os.path.basename(path)
    try:
        descriptor = open_in_place(folder, name, make=True)
    except OSError as problem:
        because = str(problem.strerror or problem)
        raise NotWritten.of(f"{path} cannot be written", because=because, fix="a different -o") from problem
    try:
        _lock(path, descriptor)
        try:
            refuse_existing(output)
            yield PartialRows(path, output, descriptor)
        finally:
            if os.fstat(descriptor).st_size == 0:
                with contextlib.suppress(OSError):
                    remove(folder, name)
    finally:
        os.close(descriptor)


def refuse_existing(output: str) -> None:
    """Raises Refused where something has the name of the output; nothing is overwritten."""
    if os.path.lexists(output):
        raise Refused.of(f"{output} exists already", fix=f"rm {output}, or a different -o")


def _lock(path: str, descriptor: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT_S
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise Refused.of(f"{path} is being written", because="a different process profiles into it") from None
            time.sleep(0.2)
        except OSError:
            return  # a file system without locks
    there = os.stat(path) if os.path.exists(path) else None
    if there is None or there.st_ino != os.fstat(descriptor).st_ino:
        raise Refused.of(f"{path} was finished by a different process meanwhile")


def _row(line: bytes) -> dict[str, Any]:
    """The row of a line, {} for what a full disk or a lost machine left of one."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
