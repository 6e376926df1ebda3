"""A file that is written whole or not at all."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

_LONGEST_WRITING_S = 300.0


def write_whole(path: Path, text: str, mode: int = 0o644, check: Callable[[], None] | None = None) -> None:
    """Replaces a file by a new one: a reader sees the old content or the new, also after the machine lost its power.

    mode: its permissions, less the umask. check: called when the new file is written and not yet in its place; what it
    raises leaves the old one there. So it may ask whether the folder is still the same: in another one the renaming
    would find nothing to rename. Raises OSError; nothing is left behind then. Beside it lies, for a moment,
    .NAME.PID.writing.
    """
    writing = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            check()
        os.replace(writing, path)
    except BaseException as problem:
        if isinstance(problem, OSError):  # of the file that was wanted, not of the one beside it
            problem.filename, problem.filename2 = os.fspath(path), None
        with contextlib.suppress(OSError):
            writing.unlink()
        raise


def remove_unfinished(path: Path) -> None:
    """Removes what killed processes left of this file; what is young may be of one that writes now."""
    for left in path.parent.glob(f".{path.name}.*.writing"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LONGEST_WRITING_S:
                left.unlink()
