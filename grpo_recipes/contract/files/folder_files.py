"""Reads and writes files of an untrusted folder within limits, and never through a link.

The folder itself may be reached through links; no part of a name below it may be one. Opening anything but a regular
file, or a folder where one is needed, raises NotRegular, an OSError with a one-line reason. So does exceeding a limit.
Names are relative, with "/" between their parts, and cannot lead out of the folder.
"""

import contextlib
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


def open_to_read(folder: Path, name: str, most: int | None = None) -> BinaryIO:
    """A regular file, open for reading. most: the largest size accepted, in bytes. Raises OSError."""
    descriptor = _open(folder, name, os.O_RDONLY)
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
    path = _path(folder, name)
    # Not from the random module, whose state the training depends on.
    writing = os.path.join(
        os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}.writing"
    )
    try:
        descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode)
        with open(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            check()
        there = status(folder, name)
        if there is not None and not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
            raise NotRegular(kind(there), path)
        os.replace(writing, path)
    except BaseException as problem:
        with contextlib.suppress(OSError):
            os.unlink(writing)
        if isinstance(problem, OSError):
            problem.filename, problem.filename2 = path, None
        raise


def remove_unfinished(folder: Path, name: str) -> None:
    """Removes leftovers of killed writers of a file; recent ones are kept, since they may still be in use."""
    with contextlib.suppress(OSError):
        parent, last = os.path.split(_path(folder, name))
        for left in os.listdir(parent):
            path = os.path.join(parent, left)
            if left.startswith(f".{last}.") and left.endswith(".writing"):
                with contextlib.suppress(OSError):
                    if time.time() - os.lstat(path).st_mtime > _LONGEST_WRITING_S:
                        os.unlink(path)


def open_to_append(folder: Path, name: str, mode: int = 0o644) -> int:
    """The descriptor of a file that is opened for appending, and created if missing. Raises OSError.

    A file with further hard links, as in a copy made with cp -l, is refused: the original would grow as well.
    """
    descriptor = _open(folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise NotRegular("it has a second name, as in a copy made with cp -l", os.path.join(folder, name))
    os.set_blocking(descriptor, True)  # a process that gets it as its output expects that
    return descriptor


def open_in_place(folder: Path, name: str, *, make: bool) -> int:
    """The descriptor of a file that is read and written in place, such as a lock. Raises OSError."""
    return _open(folder, name, os.O_RDWR | (os.O_CREAT if make else 0), 0o644)


def make_folder(folder: Path, name: str) -> None:
    """Makes a folder and its missing parents. Raises OSError."""
    os.makedirs(_path(folder, f"{name}/."), exist_ok=True)


def remove(folder: Path, name: str) -> None:
    """Removes a file, or a link itself; does nothing if it does not exist. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(folder, name))


def remove_tree(folder: Path, name: str) -> None:
    """Removes a folder with its content, or any other entry with this name; links are not followed. As `remove`."""
    there = status(folder, name)
    if there is None or not stat.S_ISDIR(there.st_mode):
        remove(folder, name)
        return
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(_path(folder, name))


def rename(folder: Path, old: str, new: str) -> None:
    """Renames a file or folder within its folder; replaces a file or an empty folder of the new name."""
    os.replace(_path(folder, old), _path(folder, new))


def status(folder: Path, name: str) -> os.stat_result | None:
    """The status of an entry, None if it does not exist. A link is not followed; one within the path is refused."""
    try:
        return os.lstat(_path(folder, name))
    except FileNotFoundError:
        return None


def is_file(folder: Path, name: str) -> bool:
    """Whether a name is a regular file. Raises nothing."""
    with contextlib.suppress(OSError):
        return (entry := status(folder, name)) is not None and stat.S_ISREG(entry.st_mode)
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
    start, count, waiting = _path(folder, f"{name}/."), 0, [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(os.path.join(start, inside)) as entries:
            listed = sorted(entry.name for entry in itertools.islice(entries, most - count + 1))
        count += len(listed)
        if count > most:
            raise NotRegular("it holds more files than a run has", start)
        for entry in listed:
            path = f"{inside}/{entry}" if inside else entry
            what = os.lstat(os.path.join(start, path))
            if stat.S_ISDIR(what.st_mode) and deepest > 1:
                if path.count("/") + 1 >= deepest:
                    raise NotRegular(f"it holds folders more than {deepest} deep", start)
                waiting.append(path)
            yield path, what


def _open(folder: Path, name: str, flags: int, mode: int = 0) -> int:
    """The descriptor of a regular file. Raises OSError."""
    path = _path(folder, name)
    try:
        descriptor = os.open(path, flags | _SAFE, mode)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            _refuse_other_kind(path, os.lstat(path))
        raise
    try:
        _refuse_other_kind(path, os.fstat(descriptor))
    except NotRegular:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_other_kind(path: str, entry: os.stat_result) -> None:
    if not stat.S_ISREG(entry.st_mode):
        raise NotRegular(kind(entry), path)


def _path(folder: Path, name: str) -> str:
    """The path of a name, or of the folder that it names if it ends with "/.".

    Raises NotRegular if the name leads out of the folder, or a part of it but the last is a link.
    """
    path, parts = os.path.normpath(folder), name.split("/")
    if "\0" in name or any(part in ("", "..") for part in parts):
        raise NotRegular("the name leads out of its folder", os.path.join(path, name))
    for part in parts[:-1]:
        path = path if part == "." else os.path.join(path, part)
        if part != "." and os.path.islink(path):
            raise NotRegular("it is a link", path)
    return path if parts[-1] == "." else os.path.join(path, parts[-1])


def _too_large(folder: Path, name: str, most: int) -> NotRegular:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return NotRegular(f"it is larger than {size}", os.path.join(folder, name))
