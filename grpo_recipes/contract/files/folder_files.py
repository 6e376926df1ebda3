"""Reads and writes files of an untrusted folder, always below a handle of that folder and never through a link.

The folder itself may be reached through links; each name below it is opened part by part. Opening anything but a
regular file, or a folder where one is needed, raises NotRegular, an OSError with a one-line reason. So does exceeding a
limit. Names are relative, with "/" between their parts, and cannot lead out of the folder.
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
"""The default limit in bytes for a file that is read at once."""
MOST_ENTRIES, DEEPEST = 1_000_000, 64
_LONGEST_WRITING_S = 300.0
_PART = 4 << 20
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# The errors of systems for opening a link, a folder, a pipe or a socket as something else.
_OTHER_KIND = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)


def open_to_read(folder: Path, name: str, most: int | None = None) -> BinaryIO:
    """A regular file, open for reading. most: the largest size accepted, in bytes. Raises OSError."""
    descriptor = _opened(folder, name, os.O_RDONLY)
    if most is not None and os.fstat(descriptor).st_size > most:
        os.close(descriptor)
        raise _too_large(folder, name, most)
    return open(descriptor, "rb")


def read_bytes(folder: Path, name: str, most: int = LARGEST) -> bytes:
    """The content of a file of at most `most` bytes. Raises OSError."""
    with open_to_read(folder, name, most) as file:
        # In parts, since Python allocates the requested size up front, which may exceed the memory limit.
        content = b"".join(itertools.islice(iter(lambda: file.read(_PART), b""), most // _PART + 2))
    if len(content) > most:  # it grew in the meantime
        raise _too_large(folder, name, most)
    return content


def read_text(folder: Path, name: str, most: int = LARGEST) -> str:
    """The UTF-8 text of a file of at most `most` bytes. Raises OSError, or ValueError if it is not UTF-8."""
    return read_bytes(folder, name, most).decode("utf-8")


def write_whole(
    folder: Path,
    name: str,
    content: str | bytes | Iterable[bytes],
    mode: int = 0o644,
    check: Callable[[], None] | None = None,
) -> None:
    """Replaces a file atomically: even after a power loss, a reader sees either the old content or the new.

    mode: its permissions, less the umask. check: called after the new file is written and before it replaces the old
    one; if it raises, the old one stays. Raises OSError and then leaves nothing behind. The new content is first
    written to .NAME.PID.NUMBER.writing. A link with the name is replaced like a file; a folder, a pipe or a device is
    not.
    """
    parts = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    with _parent(folder, name) as (parent, last):
        # Not from the random module, whose state the training depends on.
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
    """Removes leftovers of killed writers of a file; recent ones are kept, since they may still be in use."""
    with contextlib.suppress(OSError), _parent(folder, name) as (parent, last):
        for left in os.listdir(parent):
            if left.startswith(f".{last}.") and left.endswith(".writing"):
                with contextlib.suppress(OSError):
                    if time.time() - os.lstat(left, dir_fd=parent).st_mtime > _LONGEST_WRITING_S:
                        os.unlink(left, dir_fd=parent)


def open_to_append(folder: Path, name: str, mode: int = 0o644) -> int:
    """The descriptor of a file that is opened for appending, and created if missing. Raises OSError.

    If the file has further hard links, as in a copy made with cp -l, it is replaced by a separate copy first.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = _opened(folder, name, flags, mode)
    found = os.fstat(descriptor)
    if found.st_nlink > 1:
        os.close(descriptor)
        with open_to_read(folder, name) as file:
            write_whole(folder, name, iter(lambda: file.read(1 << 20), b""), stat.S_IMODE(found.st_mode))
        descriptor = _opened(folder, name, flags, mode)
    os.set_blocking(descriptor, True)  # a process that gets it as its output expects that
    return descriptor


def open_in_place(folder: Path, name: str, *, make: bool) -> int:
    """The descriptor of a file that is read and written in place, such as a lock. Raises OSError."""
    return _opened(folder, name, os.O_RDWR | (os.O_CREAT if make else 0), 0o644)


def make_folder(folder: Path, name: str) -> None:
    """Makes a folder and its missing parents. Raises OSError."""
    above = ""
    for part in name.split("/"):
        above = f"{above}{part}/"
        with _parent(folder, above[:-1]) as (parent, last):
            try:
                os.mkdir(last, dir_fd=parent)
            except FileExistsError:
                os.close(_folder_in(parent, last))


def remove(folder: Path, name: str) -> None:
    """Removes a file, or a link itself; does nothing if it does not exist. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), _parent(folder, name) as (parent, last):
        os.unlink(last, dir_fd=parent)


def remove_tree(folder: Path, name: str) -> None:
    """Removes a folder with its content, or any other entry with this name; links are not followed. As `remove`."""
    with contextlib.suppress(FileNotFoundError), _parent(folder, name) as (parent, last):
        if not stat.S_ISDIR(os.lstat(last, dir_fd=parent).st_mode):
            os.unlink(last, dir_fd=parent)
            return
        try:
            shutil.rmtree(last, dir_fd=parent)
        except RecursionError:
            raise NotRegular("it nests folders without end") from None


def rename(folder: Path, old: str, new: str) -> None:
    """Renames a file or folder within its folder; replaces a file or an empty folder of the new name."""
    with _parent(folder, old) as (source, was), _parent(folder, new) as (target, becomes):
        os.replace(was, becomes, src_dir_fd=source, dst_dir_fd=target)


def status(folder: Path, name: str) -> os.stat_result | None:
    """The status of an entry, None if it does not exist. A link is not followed; one within the path is refused."""
    try:
        with _parent(folder, name) as (parent, last):
            return os.lstat(last, dir_fd=parent)
    except FileNotFoundError:
        return None


def is_file(folder: Path, name: str) -> bool:
    """Whether a name is a regular file. Raises nothing."""
    with contextlib.suppress(OSError):
        return (found := status(folder, name)) is not None and stat.S_ISREG(found.st_mode)
    return False


def names(folder: Path, name: str = ".") -> list[str]:
    """The sorted names in a folder, empty if it does not exist. Raises OSError, also for a million entries or more."""
    try:
        return sorted(entry for entry, _ in walk(folder, name, deepest=1))
    except FileNotFoundError:
        return []


def walk(
    folder: Path, name: str = ".", *, most: int = MOST_ENTRIES, deepest: int = DEEPEST
) -> Iterator[tuple[str, os.stat_result]]:
    """Iterates over everything below a folder, parents first: relative name and status.

    Links are listed and not followed. most: entries; deepest: levels, 1 lists the folder alone. Raises OSError, also if
    there are more entries or, unless deepest is 1, more levels.
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
            raise _clearer(problem, parent, last) from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise NotRegular(kind(found))
        return descriptor


@contextlib.contextmanager
def _parent(folder: Path, name: str) -> Iterator[tuple[int, str]]:
    """A handle of the folder that contains a name, and the last part of the name."""
    with _named(folder, name):
        if not (parts := _parts(name)):
            raise NotRegular("it is the folder itself")
        parent = _walked(folder, parts[:-1])
        try:
            yield parent, parts[-1]
        finally:
            os.close(parent)


def _parts(name: str) -> list[str]:
    """The parts of a name. Raises NotRegular if it leads out of the folder."""
    parts = [part for part in name.split("/") if part != "."]
    if any(part in ("", "..") or "\0" in part for part in parts):
        raise NotRegular("the name leads out of its folder")
    return parts


def _walked(folder: Path, parts: list[str]) -> int:
    """A handle of a folder below the given one."""
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
        raise _clearer(problem, parent, name) from None


def _clearer(problem: OSError, parent: int, name: str) -> OSError:
    """A clearer error for an entry of the wrong kind."""
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
    """Makes an OSError name the full path and no second one."""
    try:
        yield
    except OSError as problem:
        problem.filename, problem.filename2 = os.path.normpath(os.path.join(folder, name)), None
        raise


def _too_large(folder: Path, name: str, most: int) -> NotRegular:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return NotRegular(f"it is larger than {size}", os.path.join(folder, name))
