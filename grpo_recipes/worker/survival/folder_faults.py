"""Explains why a file cannot be written: a full, read-only or broken disk, or a folder that was removed."""

import contextlib
import errno
import os
import re
import tempfile
from pathlib import Path

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.host.child_environment import OF_DEEPSPEED, OF_THE_HUB, locked_caches
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder
from grpo_recipes.worker.checkpoints.checkpoint import latest_checkpoint, remove_leftovers

_UNSAID = 0
_FULL = (errno.ENOSPC, errno.EDQUOT, _UNSAID)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)
# The cause and the fix, by error number. On a full disk torch only reports that it failed.
_FAULTS = {
    _UNSAID: ("a library failed to", "free some space"),
    errno.ENOSPC: ("no space is left", "free some space"),
    errno.EDQUOT: ("the disk quota is used up", "remove files or raise the quota"),
    errno.EFBIG: (
        "the file would be larger than this file system or ulimit allows",
        "use a file system, or a ulimit -f, that allows files of that size",
    ),
    errno.EROFS: (
        "it is read-only",
        "make it writable again; the kernel often makes a failed disk read-only, see dmesg",
    ),
    errno.EACCES: ("permission denied", "let this user write there"),
    errno.EPERM: ("operation not permitted", "let this user write there"),
    errno.EIO: ("the disk fails (input/output error)", "check the disk, see dmesg"),
    errno.ESTALE: (
        "the network file system has lost it (stale file handle)",
        "check the server of that file system, and mount it again",
    ),
}
# Rust writes "(os error 28)", torch only the text, or merely that it failed.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\berrno[ :=]+(\d+)", re.IGNORECASE)
_WRITER_FAILED = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error|unexpected pos \d+ vs \d+")
_LONGEST_CAUSE = 200
_NOTHING_FREE = 1 << 20


def explained(problem: BaseException, same: SameFolder) -> Mistake | None:
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
    for one in causes(problem):
        number, place = _number_at(one, folder), _named(one)
        is_inside = place is not None and place.is_relative_to(folder)
        if number is None:
            continue
        if number in _NOT_ALLOWED and not is_inside:
            if place is not None and (locked := _of_a_cache(place)) is not None:
                return locked
            continue
        if place is None:  # libraries also write outside the run folder
            place = next((beside for beside in _places(folder) if _free(beside) < _NOTHING_FREE), folder)
        shown = f"{place.relative_to(folder)} of the run folder" if is_inside and place != folder else place
        last = _last_checkpoint(folder)
        goes_on = (
            "starts over, since nothing was saved" if last is None else f"continues from {last.name}, which is complete"
        )
        return Mistake.of(
            f"{shown} cannot be written: {_words(number, place)}",
            because=f"{type(one).__name__}: {(str(one).splitlines() or [''])[0][:_LONGEST_CAUSE]}",
            fix=f"{_FAULTS[number][1]}, then grpo-run RUNDIR --resume: it {goes_on}",
        )
    return None


def _of_a_cache(place: Path) -> Mistake | None:
    """Returns the mistake if the path is in a cache that cannot be written, or is one of its parent folders."""
    locked = locked_caches(os.environ, OF_THE_HUB + OF_DEEPSPEED, "error")
    folders = [] if locked is None else [Path(reason.partition(": ")[2]) for reason in locked.because]
    is_one = any(place.is_relative_to(folder) or folder.is_relative_to(place) for folder in folders)
    return Mistake(locked) if locked is not None and is_one else None


def why_unwritten(problem: BaseException, place: Path) -> str | None:
    """Returns why nothing could be written at a path, with the free space there; None for other problems."""
    number = next((number for one in causes(problem) if (number := _number_at(one, place)) is not None), None)
    return None if number is None else _words(number, place)


def make_room(folder: Path, problem: BaseException) -> None:
    """Removes half-written files after a disk was full, so that the reason can be recorded."""
    if any(_number_at(one, folder) in _FULL for one in causes(problem)):
        remove_leftovers(folder)


def _words(number: int, place: Path) -> str:
    if number not in _FULL:
        return _FAULTS[number][0]
    free = _free(place)
    number = errno.ENOSPC if number == _UNSAID and free < _NOTHING_FREE else number
    return f"{_FAULTS[number][0]}; {free / 2**20:.1f} MiB are free there"


def _last_checkpoint(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return latest_checkpoint(folder / "checkpoints")
    return None


def _places(folder: Path) -> tuple[Path, ...]:
    """Returns the folders that libraries write to during a run."""
    return folder, Path(tempfile.gettempdir()), Path("/dev/shm")


def _number_at(problem: BaseException, folder: Path) -> int | None:
    """Like _number, but errors that torch raises without a reason count only if the disk is full.

    torch raises these after other mistakes as well.
    """
    number = _number(problem)
    is_said = number != _UNSAID or any(_free(place) < _NOTHING_FREE for place in _places(folder))
    return number if is_said else None


def _number(problem: BaseException) -> int | None:
    """Returns the fault in _FAULTS, None for other problems."""
    text = str(problem)
    number: int | None = problem.errno if isinstance(problem, OSError) else None
    if number is None and (match := _OS_ERROR.search(text)) is not None:
        number = int(match[1] or match[2])
    if number is None:
        number = next((known for known in _FAULTS if known and os.strerror(known) in text), None)
    if number is None and _WRITER_FAILED.search(text):
        number = _UNSAID
    return number if number in _FAULTS else None


def _named(problem: BaseException) -> Path | None:
    name = problem.filename if isinstance(problem, OSError) else None
    return Path(os.fsdecode(name)).absolute() if isinstance(name, str | bytes) and name else None


def _free(place: Path) -> int:
    """Returns the free bytes on the disk of a path, which need not exist; 0 if unknown."""
    with contextlib.suppress(OSError):
        found = os.statvfs(next(one for one in (place, *place.parents) if one.is_dir()))
        return found.f_bavail * found.f_frsize
    return 0
