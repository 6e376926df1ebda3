"""Explains why a file cannot be written: a full, read-only or broken disk, or a folder that was removed."""

import contextlib
import errno
import os
import re
import tempfile
from pathlib import Path

from grpo_recipes.contract.exits import SYSTEM_FIXES
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.host.child_environment import OF_DEEPSPEED, OF_THE_HUB, find_locked_caches
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder
from grpo_recipes.worker.checkpoints.checkpoint import latest_checkpoint, remove_leftovers

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)
_FAULTS = (*_FULL, *_NOT_ALLOWED, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE)
# Rust writes "(os error 28)", torch only the text, or merely that it failed.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\berrno[ :=]+(\d+)", re.IGNORECASE)
_WRITER_FAILED = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error|unexpected pos \d+ vs \d+")
_LONGEST_CAUSE = 200
_NOTHING_FREE = 1 << 20


def explain_fault(problem: BaseException, same: SameFolder) -> Mistake | None:
    """Returns what could not be written, why, and how to continue; None for other problems.

    same: the run folder; if it is gone, that is the reason, whatever the problem. Libraries report such faults in
    different ways: OSError with or without a file, safetensors with a text, torch with a RuntimeError without a reason.
    """
    folder = same.folder
    try:
        same.check()
    except FolderGone as gone:
        return gone
    except OSError:
        pass  # the disk fails; the problem itself will show it
    for cause in causes(problem):
        number, path = _number(cause, folder), _file_of(cause)
        is_inside = path is not None and path.is_relative_to(folder)
        if number is None:
            continue
        if number in _NOT_ALLOWED and not is_inside:
            if path is not None and (locked := _of_a_cache(path)) is not None:
                return locked
            continue
        path = path or _full_folder(folder) or folder
        shown = f"{path.relative_to(folder)} of the run folder" if is_inside and path != folder else path
        return Mistake.of(
            f"{shown} cannot be written: {_words(number, path)}",
            because=f"{type(cause).__name__}: {(str(cause).splitlines() or [''])[0][:_LONGEST_CAUSE]}",
            fix=f"{SYSTEM_FIXES[number]}, then grpo-run RUNDIR --resume: it {_continues(folder)}",
        )
    return None


def _of_a_cache(path: Path) -> Mistake | None:
    """Returns the mistake if the path is in a cache that cannot be written, or is one of its parent folders."""
    locked = find_locked_caches(os.environ, OF_THE_HUB + OF_DEEPSPEED, "error")
    folders = [] if locked is None else [Path(reason.partition(": ")[2]) for reason in locked.because]
    is_in_cache = any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in folders)
    return Mistake(locked) if locked is not None and is_in_cache else None


def why_unwritten(problem: BaseException, path: Path) -> str | None:
    """Returns why nothing could be written at a path, with the free space there; None for other problems."""
    number = next((number for cause in causes(problem) if (number := _number(cause, path)) is not None), None)
    return None if number is None else _words(number, path)


def make_room(folder: Path, problem: BaseException) -> None:
    """Removes half-written files after a disk was full, so that the reason can be recorded."""
    if any(_number(cause, folder) in _FULL for cause in causes(problem)):
        remove_leftovers(folder)


def _words(number: int, path: Path) -> str:
    text = os.strerror(number)
    free = f"; {_free(path) / 2**20:.1f} MiB are free there" if number in _FULL else ""
    return f"{text[0].lower()}{text[1:]}{free}"


def _continues(folder: Path) -> str:
    with contextlib.suppress(OSError):
        if (last := latest_checkpoint(folder / "checkpoints")) is not None:
            return f"continues from {last.name}, which is complete"
    return "starts over, since nothing was saved"


def _full_folder(folder: Path) -> Path | None:
    """Returns a folder on a full disk that libraries write to during a run."""
    written = (folder, Path(tempfile.gettempdir()), Path("/dev/shm"))
    return next((each for each in written if _free(each) < _NOTHING_FREE), None)


def _number(problem: BaseException, folder: Path) -> int | None:
    """Returns the number in _FAULTS, None for other problems.

    On a full disk torch only reports that it failed, which it also does after other mistakes.
    """
    text = str(problem)
    number: int | None = problem.errno if isinstance(problem, OSError) else None
    if number is None and (match := _OS_ERROR.search(text)) is not None:
        number = int(match[1] or match[2])
    if number is None:
        number = next((known for known in _FAULTS if os.strerror(known) in text), None)
    if number is None and _WRITER_FAILED.search(text) and _full_folder(folder) is not None:
        number = errno.ENOSPC
    return number if number in _FAULTS else None


def _file_of(problem: BaseException) -> Path | None:
    name = problem.filename if isinstance(problem, OSError) else None
    return Path(os.fsdecode(name)).absolute() if isinstance(name, str | bytes) and name else None


def _free(path: Path) -> int:
    """Returns the free bytes on the disk of a path, which need not exist; 0 if unknown."""
    with contextlib.suppress(OSError):
        status = os.statvfs(next(each for each in (path, *path.parents) if each.is_dir()))
        return status.f_bavail * status.f_frsize
    return 0
