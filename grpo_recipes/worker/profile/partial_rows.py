"""Stores the rows of an unfinished profile in a file next to the output, which is renamed when complete."""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import open_in_place, remove, rename
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.profile import ASKED, PROFILE, profile_in_row
from grpo_recipes.worker._shared.replacing import Refused

# The worker of a killed command runs for about a second longer.
_LONGEST_WAIT_S = 5.0
_READ_AT_ONCE = 1 << 20
_DIGEST, _DIGITS = "row", 12
"""In a row's profile: its digest, and how many of its digits."""


class NotWritten(Mistake):
    """The rows cannot be written: where, why, and what exists already. The command exits with 1."""


class PartialRows:
    """An append-only file of JSON lines. rows: the parsed lines, in order."""

    def __init__(self, path: str, output: str, descriptor: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._path, self._output, self._descriptor = path, output, descriptor

    def resume(self, asked: str, whole: int, count: int) -> None:
        """Continues with the rows of an earlier attempt. whole: rows answered together; count: of all rows.

        Raises Refused if they belong to a different profile, or if one was changed, moved or copied.
        """
        content = b"".join(iter(lambda: os.read(self._descriptor, _READ_AT_ONCE), b""))
        lines = content.split(b"\n")[:-1]  # the last one is incomplete
        known = list(itertools.takewhile(bool, map(_row, lines)))
        profiles = [profile_in_row(row) or {} for row in known or [{}] * bool(lines)]
        is_row = content[:1] in (b"", b"{")  # also for a partial line; any other file is not a profile, and stays
        if not is_row or any(profile.get(ASKED) != asked for profile in profiles) or len(known) > count:
            raise Refused.of(
                f"{self._path} has rows of a different profile",
                because="it was made with a different model, recipe or number of samples",
                fix=f"rm {shlex.quote(self._path)}, or a different -o",
            )
        if (index := next((at for at, row in enumerate(known) if with_digest(row, at) != row), None)) is not None:
            raise Refused.of(
                f"{self._path}: row {index + 1} changed after it was written",
                because="its digest covers its place and everything in it, so rows were edited, moved, copied or lost",
                fix=f"restore the file, or rm {shlex.quote(self._path)} to answer all rows again",
            )
        done = count if len(known) == count else len(known) // whole * whole
        self.rows = known[:done]
        os.ftruncate(self._descriptor, sum(len(line) + 1 for line in lines[:done]))
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def add(self, rows: list[dict[str, Any]], text: bytes) -> None:
        """Appends rows, and returns when they are on disk. Raises NotWritten."""
        try:
            left = memoryview(text)
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as problem:
            raise NotWritten.of(
                f"{self._path}: {os.strerror(problem.errno or 0)}",
                because=f"{len(self.rows)} rows are answered, and stay in the file",
                fix="free some space, then rerun the command to continue",
            ) from problem
        self.rows += rows

    def finish(self) -> None:
        """Renames the file to the output."""
        refuse_existing(self._output)
        rename(Path(self._path).parent, *map(os.path.basename, (self._path, self._output)))


@contextlib.contextmanager
def partial_rows(path: str, output: str) -> Iterator[PartialRows]:
    """Yields the file, locked; an empty one is removed afterwards. Raises Refused, NotWritten."""
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


def with_digest(row: dict[str, Any], index: int) -> dict[str, Any]:
    """Returns a row with the digest of its place and content in its profile. Raises what json.dumps raises."""
    profile = {name: value for name, value in row[PROFILE].items() if name != _DIGEST}
    text = json.dumps([index, {**row, PROFILE: profile}], ensure_ascii=False, default=str)
    return {**row, PROFILE: {**profile, _DIGEST: hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}}


def refuse_existing(output: str) -> None:
    """Raises Refused if the output exists; nothing is overwritten."""
    if os.path.lexists(output):
        raise Refused.of(f"{output} already exists", fix=f"rm {shlex.quote(output)}, or a different -o")


def _lock(path: str, descriptor: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT_S
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise Refused.of(f"{path} is in use", because="a different process writes a profile to it") from None
            time.sleep(0.2)
        except OSError:
            return  # a file system without locks
    there = os.stat(path) if os.path.exists(path) else None
    if there is None or there.st_ino != os.fstat(descriptor).st_ino:
        raise Refused.of(f"{path} was finished by a different process in the meantime")


def _row(line: bytes) -> dict[str, Any]:
    """Returns the row of a line, {} for a line damaged by a full disk or a crash."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
