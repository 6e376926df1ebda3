"""Why a file cannot be written: a full disk, one that is read-only or broken, a folder that is gone."""

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder
from grpo_recipes.worker.checkpoints.checkpoint import latest_checkpoint, remove_leftovers

FULL = (errno.ENOSPC, errno.EDQUOT)
_WORDS = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this file system or ulimit allows",
    errno.EROFS: "it is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EIO: "the disk fails (input/output error)",
    errno.ESTALE: "the network file system has lost it (stale file handle)",
}
_FIX = {
    errno.EDQUOT: "remove files or raise the quota",
    errno.EFBIG: "a file system, or a ulimit -f, for files of that size",
    errno.EROFS: "make it writable again; a disk that failed is often made read-only, see dmesg",
    errno.EACCES: "let this user write there",
    errno.EPERM: "let this user write there",
    errno.EIO: "look at that disk, see dmesg",
    errno.ESTALE: "look at the server of that file system, and mount it again",
}
# Rust says "(os error 28)", torch names the text alone, or nothing but that it failed.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\berrno[ :=]+(\d+)", re.IGNORECASE)
_WRITER_FAILED = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error|unexpected pos \d+ vs \d+")
_PROBE_BYTES = 1 << 16
_LONGEST_CAUSE = 200


def explained(problem: BaseException, same: SameFolder) -> Mistake | None:
    """What could not be written, why, and how the run goes on; None for a problem of another kind.

    same: the run folder; where it is gone, that is the reason, whatever the problem. The libraries say it in many ways:
    OSError with and without a file, safetensors with a text, torch with a RuntimeError that has no reason, for which a
    little file is written.
    """
    folder = same.folder
    try:
        same.check()
    except FolderGone as gone:
        return gone
    except OSError:
        pass  # of a disk that fails, as the problem will say
    for one in _chain(problem):
        number = _number(one)
        if number is None and _WRITER_FAILED.search(str(one)):
            number = next((found for place in _places(one, folder) if (found := _probe(place)) is not None), None)
        if number in _WORDS and not (number in (errno.EACCES, errno.EPERM) and not _is_inside(one, folder)):
            return _told(one, number, folder)
    return None


def is_full(problem: BaseException) -> bool:
    """Whether a write failed for want of room."""
    return any(_number(one) in FULL or _WRITER_FAILED.search(str(one)) for one in _chain(problem))


def why_unwritten(problem: BaseException, place: Path) -> str | None:
    """Why nothing could be written at a place, with the room that is left there; None for a problem of another kind."""
    numbers = (_number(one) or (_probe(place) if _WRITER_FAILED.search(str(one)) else None) for one in _chain(problem))
    number = next((number for number in numbers if number in _WORDS), None)
    if number is None:
        return None
    free = _free(place) if number in FULL else None
    return _WORDS[number] + ("" if free is None else f"; {_bytes(free)} are free there")


def make_room(folder: Path, problem: BaseException) -> None:
    """Removes what is half-written after a disk was full, so that there is room for what has to be said."""
    if is_full(problem):
        remove_leftovers(folder)


def _told(problem: BaseException, number: int, folder: Path) -> Mistake:
    place = _named(problem) or next((one for one in _places(problem, folder) if _probe(one) == number), folder)
    short = _shortened(place, folder)
    said = str(problem).splitlines()[0][:_LONGEST_CAUSE] if str(problem) else ""
    text = f"{type(problem).__name__}: {said}"
    free = _free(place)
    room = f"; {_bytes(free)} are free there" if free is not None and number in FULL else ""
    return Mistake.of(
        f"{short} cannot be written: {_WORDS[number]}{room}",
        because=text,
        fix=f"{_fix(number, folder)}, then grpo-run RUNDIR --resume: {_goes_on(folder)}",
    )


def _fix(number: int, folder: Path) -> str:
    if number != errno.ENOSPC:
        return _FIX[number]
    last = _last(folder)
    size = None if last is None else _size(last)
    return "make room" if size is None else f"make room for {_bytes(size)} and more, which a checkpoint takes"


def _goes_on(folder: Path) -> str:
    last = _last(folder)
    return "it begins anew, since nothing was saved" if last is None else f"it goes on from {last.name}, which is whole"


def _last(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return latest_checkpoint(folder / "checkpoints")
    return None


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """A problem and what it came from, the first cause last."""
    seen: set[int] = set()
    one: BaseException | None = problem
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _number(problem: BaseException) -> int | None:
    if isinstance(problem, OSError) and problem.errno is not None:
        return problem.errno
    match = _OS_ERROR.search(str(problem))
    if match is not None:
        return int(match[1] or match[2])
    return next((number for number in _WORDS if os.strerror(number) in str(problem)), None)


def _named(problem: BaseException) -> Path | None:
    name = problem.filename if isinstance(problem, OSError) else None
    return Path(os.fsdecode(name)).absolute() if isinstance(name, str | bytes) and name else None


def _is_inside(problem: BaseException, folder: Path) -> bool:
    named = _named(problem)
    return named is not None and named.is_relative_to(folder)


def _places(problem: BaseException, folder: Path) -> list[Path]:
    """The folders in which a write may have failed: the run folder, or what libraries write beside it."""
    named = _named(problem)
    return [folder, Path(tempfile.gettempdir()), Path("/dev/shm")] if named is None else [named]


def _probe(place: Path) -> int | None:
    """Why nothing can be written in a folder, None where it can."""
    file = _existing(place) / f".probe.{os.getpid()}"
    try:
        with file.open("wb") as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as problem:
        return problem.errno
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
    return None


def _free(place: Path) -> int | None:
    with contextlib.suppress(OSError):
        found = os.statvfs(_existing(place))
        return found.f_bavail * found.f_frsize
    return None


def _existing(place: Path) -> Path:
    """The folder of a file, or the first above it that is there."""
    return next((one for one in (place, *place.parents) if one.is_dir()), Path("/"))


def _size(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return None


def _shortened(place: Path, folder: Path) -> str:
    if place == folder or not place.is_relative_to(folder):
        return str(place)
    return f"{place.relative_to(folder)} of the run folder"


def _bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
