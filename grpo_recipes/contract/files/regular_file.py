"""Opens files that a recipe names, refusing devices, pipes and /proc, whose reading might never end."""

import hashlib
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

_HOLES = 1 << 30
"""Bytes from which a file is checked for holes, which cost nothing to make and days to read."""
_MOST_PARTS = 1000


class NotRegular(OSError):
    """A path is not a usable file or folder: reading it may never end, or it leads elsewhere. The text says why.

    path: the file concerned, if the caller does not name it.
    """

    def __init__(self, reason: str, path: str | None = None) -> None:
        super().__init__(None, reason, *([] if path is None else [path]))

    def __str__(self) -> str:
        return str(self.strerror) if self.filename is None else f"{self.filename}: {self.strerror}"


def kind(status: os.stat_result) -> str:
    """The kind of a file, in the words of an error."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if stat.S_ISDIR(status.st_mode):
        return "it is a folder"
    if stat.S_ISREG(status.st_mode):
        return "it is a file"
    return "it is a device, a pipe or a socket, which may never end"


def open_regular(path: str | Path) -> BinaryIO:
    """Opens the file at a path for reading. Raises OSError, and its NotRegular for anything but an ordinary file.

    Checks the opened file rather than the path, which may by then name something else; opening a pipe does not block.
    Files of /proc report that they are empty and may block for ever, so an empty file counts as one of them.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(kind(status))
        if status.st_size > _HOLES and status.st_blocks * 512 < status.st_size // 2 and _has_holes(descriptor, status):
            raise NotRegular("it is larger than 1 GiB and mostly holes")
        if status.st_size == 0:
            os.close(descriptor)
            descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _has_holes(descriptor: int, status: os.stat_result) -> bool:
    """Whether a file is mostly holes; a compressing file system uses fewer blocks, but reports no holes."""
    written, offset = 0, 0
    try:
        for _ in range(_MOST_PARTS):
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
            offset = os.lseek(descriptor, start, os.SEEK_HOLE)
            written += offset - start
            if offset >= status.st_size:
                break
    except OSError:
        pass  # only a hole until the end
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return written < status.st_size // 2


def read_text(path: str | Path, most: int) -> str:
    """The UTF-8 text of a regular file. Raises OSError, or ValueError if it exceeds `most` bytes or is not UTF-8."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most >> 20} MiB")
    return content.decode("utf-8")


TRAVELS = ("__init__.py", "contract", "rewards", "worker")
"""The parts of this package that each run folder gets a copy of, and trains with."""


def file_sha256(path: str | Path) -> str:
    """The digest of a regular file's bytes. Raises OSError if it cannot be read."""
    with open_regular(path) as file:
        return open_sha256(file)


def open_sha256(file: BinaryIO) -> str:
    """The digest of an open file, which is read to its end."""
    return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def files_sha256(files: Iterable[tuple[str, str]], errors: str = "strict") -> str:
    """One digest over the names and digests of files, in order.

    errors: of str.encode, for a name that is not UTF-8, which no plan can hold. Raises UnicodeEncodeError.
    """
    lines = (f"{digest} ".encode() + name.encode(errors=errors) + b"\n" for name, digest in files)
    return hashlib.sha256(b"".join(lines)).hexdigest()
