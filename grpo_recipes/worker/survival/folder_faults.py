"""Why a file cannot be written: a full disk, one that is read-only or broken, a folder that is gone."""

import contextlib
import errno
import os
import re
import tempfile
from pathlib import Path

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.findings.lost_peer import causes
from grpo_recipes.contract.host.surroundings import OF_DEEPSPEED, OF_THE_HUB, locked_caches
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder
from grpo_recipes.worker.checkpoints.checkpoint import latest_checkpoint, remove_leftovers

_UNSAID = 0
_FULL = (errno.ENOSPC, errno.EDQUOT, _UNSAID)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)
# What is wrong, and what to do, by number. torch says no more than that it failed, as it does on a full disk.
_FAULTS = {
    _UNSAID: ("a library failed to", "make room"),
    errno.ENOSPC: ("no space is left", "make room"),
    errno.EDQUOT: ("the disk quota is used up", "remove files or raise the quota"),
    errno.EFBIG: (
        "the file would be larger than this file system or ulimit allows",
        "a file system, or a ulimit -f, for files of that size",
    ),
    errno.EROFS: (
        "it is read-only",
        "make it writable again; a disk that failed is often made read-only, see dmesg",
    ),
    errno.EACCES: ("permission denied", "let this user write there"),
    errno.EPERM: ("operation not permitted", "let this user write there"),
    errno.EIO: ("the disk fails (input/output error)", "look at that disk, see dmesg"),
    errno.ESTALE: (
        "the network file system has lost it (stale file handle)",
        "look at the server of that file system, and mount it again",
    ),
}
# Rust says "(os error 28)", torch names the text alone, or nothing but that it failed.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\berrno[ :=]+(\d+)", re.IGNORECASE)
_WRITER_FAILED = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error|unexpected pos \d+ vs \d+")
_LONGEST_CAUSE = 200
_NOTHING_FREE = 1 << 20


def explained(problem: BaseException, same: SameFolder) -> Mistake | None:
    """What could not be written, why, and how the run goes on; None for a problem of another kind.

    same: the run folder; where it is gone, that is the reason, whatever the problem. The libraries say it in many ways:
    OSError with and without a file, safetensors with a text, torch with a RuntimeError that has no reason.
    """
    folder = same.folder
    try:
        same.check()
    except FolderGone as gone:
        return gone
    except OSError:
        pass  # of a disk that fails, as the problem will say
    for one in causes(problem):
        number, place = _number_at(one, folder), _named(one)
        is_inside = place is not None and place.is_relative_to(folder)
        if number is None:
            continue
        if number in _NOT_ALLOWED and not is_inside:
            if place is not None and (locked := _of_a_cache(place)) is not None:
                return locked
            continue
        if place is None:  # libraries write beside the run folder, too
            place = next((beside for beside in _places(folder) if _free(beside) < _NOTHING_FREE), folder)
        shown = f"{place.relative_to(folder)} of the run folder" if is_inside and place != folder else place
        last = _last_checkpoint(folder)
        goes_on = (
            "begins anew, since nothing was saved" if last is None else f"goes on from {last.name}, which is whole"
        )
        return Mistake.of(
            f"{shown} cannot be written: {_words(number, place)}",
            because=f"{type(one).__name__}: {(str(one).splitlines() or [''])[0][:_LONGEST_CAUSE]}",
            fix=f"{_FAULTS[number][1]}, then grpo-run RUNDIR --resume: it {goes_on}",
        )
    return None


def _of_a_cache(place: Path) -> Mistake | None:
    """What to say where a place is in a cache that cannot be written, or above it."""
    locked = locked_caches(os.environ, OF_THE_HUB + OF_DEEPSPEED, "error")
    folders = [] if locked is None else [Path(reason.partition(": ")[2]) for reason in locked.because]
    is_one = any(place.is_relative_to(folder) or folder.is_relative_to(place) for folder in folders)
    return Mistake(locked) if locked is not None and is_one else None


def why_unwritten(problem: BaseException, place: Path) -> str | None:
    """Why nothing could be written at a place, with the room that is left there; None for a problem of another kind."""
    number = next((number for one in causes(problem) if (number := _number_at(one, place)) is not None), None)
    return None if number is None else _words(number, place)


def make_room(folder: Path, problem: BaseException) -> None:
    """Removes what is half-written after a disk was full, so that there is room for what has to be said."""
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
    """Where the libraries write during a run."""
    return folder, Path(tempfile.gettempdir()), Path("/dev/shm")


def _number_at(problem: BaseException, folder: Path) -> int | None:
    """As _number. What torch says without a reason, also after another mistake, is one only where no room is left."""
    number = _number(problem)
    is_said = number != _UNSAID or any(_free(place) < _NOTHING_FREE for place in _places(folder))
    return number if is_said else None


def _number(problem: BaseException) -> int | None:
    """Which fault of _FAULTS a problem is, None for any other."""
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
    """Bytes that are free where a file is, or would be; 0 where nobody says it."""
    with contextlib.suppress(OSError):
        found = os.statvfs(next(one for one in (place, *place.parents) if one.is_dir()))
        return found.f_bavail * found.f_frsize
    return 0
