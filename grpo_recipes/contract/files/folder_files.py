"""The files of a folder that may be a stranger's: all reading and writing below a handle of it, never through a link.

The folder itself may be reached through links; each name below it is walked part by part. What is no regular file, or
no folder where one is needed, is never opened for good: NotRegular, an OSError, says so in one line. So does every
bound. A name is relative, with "/" between its parts, and never leads out of the folder.
"""

import contextlib
import errno
import itertools
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from grpo_recipes.contract.files.regular_file import NotRegular, kind

LARGEST = 64 << 20
"""Bytes that are read at once where nobody says how many."""
MOST_ENTRIES, DEEPEST = 1_000_000, 64
_LONGEST_WRITING_S = 300.0
_PART = 4 << 20
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# What systems say of a link, a folder, a pipe or a socket that is opened as something else.
_OTHER_KIND = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)


def open_to_read(folder: Path, name: str, most: int | None = None) -> BinaryIO:
    """A regular file, open for reading. most: bytes that it may have. Raises OSError."""
    descriptor = _opened(folder, name, os.O_RDONLY)
    if most is not None and os.fstat(descriptor).st_size > most:
        os.close(descriptor)
        raise _too_large(folder, name, most)
    return open(descriptor, "rb")


def read_bytes(folder: Path, name: str, most: int = LARGEST) -> bytes:
    """All of a file that has no more than so many bytes. Raises OSError."""
    with open_to_read(folder, name, most) as file:
        # In parts: Python takes the room for all that is asked for, which a process without memory has not.
        content = b"".join(itertools.islice(iter(lambda: file.read(_PART), b""), most // _PART + 2))
    if len(content) > most:  # it grew meanwhile
        raise _too_large(folder, name, most)
    return content


def read_text(folder: Path, name: str, most: int = LARGEST) -> str:
    """The UTF-8 text of such a file. Raises OSError, ValueError when it is none."""
    return read_bytes(folder, name, most).decode("utf-8")


def write_whole(
    folder: Path,
    name: str,
    content: str | bytes | Iterable[bytes],
    mode: int = 0o644,
    check: Callable[[], None] | None = None,
) -> None:
    """Replaces a file by a new one: a reader sees the old content or the new, also after the machine lost its power.

    mode: its permissions, less the umask. check: called when the new file is written and not yet in its place; what it
    raises leaves the old one there. Raises OSError; nothing is left behind then. Beside it lies, for a moment,
    .NAME.PID.NUMBER.writing. A link that had the name is replaced like a file; a folder, a pipe or a device is not.
    """
    parts = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    with _parent(folder, name) as (parent, last):
        # Not the random module's numbers, which the training depends on.
        writing = f".{last}.{os.getpid()}.{os.urandom(4).hex()}.writing"
        try:
            descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode, dir_fd=parent)
            with open(descriptor, "wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            if check is not None:
                check()
            _refuse_to_replace(parent, last)
            os.replace(writing, last, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(writing, dir_fd=parent)
            raise


def remove_unfinished(folder: Path, name: str) -> None:
    """Removes what killed processes left of a file's writing; what is young may be of one that writes now."""
    with contextlib.suppress(OSError), _parent(folder, name) as (parent, last):
        for left in os.listdir(parent):
            if left.startswith(f".{last}.") and left.endswith(".writing"):
                with contextlib.suppress(OSError):
                    if time.time() - os.lstat(left, dir_fd=parent).st_mtime > _LONGEST_WRITING_S:
                        os.unlink(left, dir_fd=parent)


def open_to_append(folder: Path, name: str, mode: int = 0o644) -> int:
    """The descriptor of a file that is written on from its end; a missing one is made. Raises OSError.

    A file that has other names too, in a copy made of hard links, becomes one of its own first.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = _opened(folder, name, flags, mode)
    found = os.fstat(descriptor)
    if found.st_nlink > 1:
        os.close(descriptor)
        with open_to_read(folder, name) as file:
            write_whole(folder, name, iter(lambda: file.read(1 << 20), b""), stat.S_IMODE(found.st_mode))
        descriptor = _opened(folder, name, flags, mode)
    os.set_blocking(descriptor, True)  # whoever gets it as its output expects that
    return descriptor


def open_in_place(folder: Path, name: str, *, make: bool) -> int:
    """The descriptor of a file that is read and written where it is, as a lock. Raises OSError."""
    return _opened(folder, name, os.O_RDWR | (os.O_CREAT if make else 0), 0o644)


def make_folder(folder: Path, name: str) -> None:
    """Makes a folder, and those above it, where they are missing. Raises OSError."""
    above = ""
    for part in name.split("/"):
        above = f"{above}{part}/"
        with _parent(folder, above[:-1]) as (parent, last):
            try:
                os.mkdir(last, dir_fd=parent)
            except FileExistsError:
                os.close(_folder_in(parent, last))


def remove(folder: Path, name: str) -> None:
    """Removes a file, or a link itself; nothing where there is none. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), _parent(folder, name) as (parent, last):
        os.unlink(last, dir_fd=parent)


def remove_tree(folder: Path, name: str) -> None:
    """Removes a folder with all that is in it, or what else has the name; of links never what they name. As remove."""
    with contextlib.suppress(FileNotFoundError), _parent(folder, name) as (parent, last):
        if not stat.S_ISDIR(os.lstat(last, dir_fd=parent).st_mode):
            os.unlink(last, dir_fd=parent)
            return
        try:
            shutil.rmtree(last, dir_fd=parent)
        except RecursionError:
            raise NotRegular("it holds folders in folders without an end") from None


def rename(folder: Path, old: str, new: str) -> None:
    """Gives a file or folder another name in the same folder; a file or an empty folder there is replaced.

    Raises OSError.
    """
    with _parent(folder, old) as (source, was), _parent(folder, new) as (target, becomes):
        os.replace(was, becomes, src_dir_fd=source, dst_dir_fd=target)


def status(folder: Path, name: str) -> os.stat_result | None:
    """What lies there, None for nothing. Links are not followed: one is looked at itself, one on the way is refused."""
    try:
        with _parent(folder, name) as (parent, last):
            return os.lstat(last, dir_fd=parent)
    except FileNotFoundError:
        return None


def is_file(folder: Path, name: str) -> bool:
    """Whether a regular file lies there. Raises nothing."""
    with contextlib.suppress(OSError):
        return (found := status(folder, name)) is not None and stat.S_ISREG(found.st_mode)
    return False


def names(folder: Path, name: str = ".") -> list[str]:
    """What a folder holds, in order; nothing where there is none. Raises OSError, also for a million and more."""
    try:
        return sorted(entry for entry, _ in walk(folder, name, deepest=1))
    except FileNotFoundError:
        return []


def walk(
    folder: Path, name: str = ".", *, most: int = MOST_ENTRIES, deepest: int = DEEPEST
) -> Iterator[tuple[str, os.stat_result]]:
    """All that lies below a folder, a folder before what is in it: names relative to it, and what each is.

    Links are named and not followed. deepest: so many folders deep; 1 is what the folder itself holds. Raises OSError,
    also where there is more, or, but for 1, where it is deeper.
    """
    count, waiting = 0, [""]
    while waiting:
        inside = waiting.pop()
        with _named(folder, f"{name}/{inside}"):
            descriptor = _walked(folder, [*_parts(name), *_parts(inside or ".")])
            try:
                found = [(one, os.lstat(one, dir_fd=descriptor)) for one in sorted(_listed(descriptor, most - count))]
            finally:
                os.close(descriptor)
        count += len(found)
        for one, what in found:
            path = f"{inside}/{one}" if inside else one
            if stat.S_ISDIR(what.st_mode) and deepest > 1:
                if path.count("/") + 1 >= deepest:
                    raise NotRegular(f"it holds folders more than {deepest} deep", os.path.join(folder, name))
                waiting.append(path)
            yield path, what


def _listed(descriptor: int, most: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        found = [entry.name for entry in itertools.islice(entries, most + 1)]
    if len(found) > most:
        raise NotRegular("it holds more files than a run has")
    return found


def _opened(folder: Path, name: str, flags: int, mode: int = 0) -> int:
    """The descriptor of a regular file. Raises OSError."""
    with _parent(folder, name) as (parent, last):
        try:
            descriptor = os.open(last, flags | _SAFE, mode, dir_fd=parent)
        except OSError as problem:
            raise _said_better(problem, parent, last) from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise NotRegular(kind(found))
        return descriptor


@contextlib.contextmanager
def _parent(folder: Path, name: str) -> Iterator[tuple[int, str]]:
    """A handle of the folder that a name is in, and the name there."""
    with _named(folder, name):
        if not (parts := _parts(name)):
            raise NotRegular("it is the folder itself")
        parent = _walked(folder, parts[:-1])
        try:
            yield parent, parts[-1]
        finally:
            os.close(parent)


def _parts(name: str) -> list[str]:
    """The parts of a name. Raises NotRegular for one that leads elsewhere."""
    parts = [part for part in name.split("/") if part != "."]
    if any(part in ("", "..") or "\0" in part for part in parts):
        raise NotRegular("the name leads out of its folder")
    return parts


def _walked(folder: Path, parts: list[str]) -> int:
    """A handle of a folder below another one."""
    here = os.open(folder, _FOLDER)
    for part in parts:
        try:
            below = _folder_in(here, part)
        finally:
            os.close(here)
        here = below
    return here


def _folder_in(parent: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as problem:
        raise _said_better(problem, parent, name) from None


def _said_better(problem: OSError, parent: int, name: str) -> OSError:
    """What is wrong with something that is not of the kind that it was opened as."""
    if problem.errno in _OTHER_KIND:
        with contextlib.suppress(OSError):
            return NotRegular(kind(os.lstat(name, dir_fd=parent)))
    return problem


def _refuse_to_replace(parent: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(name, dir_fd=parent)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            raise NotRegular(kind(found))


@contextlib.contextmanager
def _named(folder: Path, name: str) -> Iterator[None]:
    """Lets an OSError name the whole path, and no other one."""
    try:
        yield
    except OSError as problem:
        problem.filename, problem.filename2 = os.path.normpath(os.path.join(folder, name)), None
        raise


def _too_large(folder: Path, name: str, most: int) -> NotRegular:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return NotRegular(f"it is larger than {size}", os.path.join(folder, name))
