"""Files that a recipe names, opened so that reading them ends: no device, no pipe, nothing of /proc."""

import hashlib
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

_HOLES = 1 << 30
"""Bytes from which on a file is looked at for holes, which cost nothing to make and days to read."""
_MOST_PARTS = 1000


class NotRegular(OSError):
    """What a path names is no file or folder to use: it may never end, or leads elsewhere. The text says why.

    path: what it is about, where the caller does not say so.
    """

    def __init__(self, reason: str, path: str | None = None) -> None:
        super().__init__(None, reason, *([] if path is None else [path]))

    def __str__(self) -> str:
        return str(self.strerror) if self.filename is None else f"{self.filename}: {self.strerror}"


def kind(status: os.stat_result) -> str:
    """What something is, in words of a refusal."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if stat.S_ISDIR(status.st_mode):
        return "it is a folder"
    if stat.S_ISREG(status.st_mode):
        return "it is a file"
    return "it is a device, a pipe or a socket, which may never end"


def open_regular(path: str | Path) -> BinaryIO:
    """The file of a path, open for reading. Raises OSError, and its NotRegular for what is no ordinary file.

    What was opened is looked at, not the path again, which may name something else by then; opening a pipe does not
    wait for its other end. An empty file is one of /proc too, which says that it is empty and may wait for ever.
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
    """Whether most of a file was never written; a file system that compresses has fewer blocks and no holes."""
    written, place = 0, 0
    try:
        for _ in range(_MOST_PARTS):
            start = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, start, os.SEEK_HOLE)
            written += place - start
            if place >= status.st_size:
                break
    except OSError:
        pass  # nothing but a hole until the end
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return written < status.st_size // 2


def read_text(path: str | Path, most: int) -> str:
    """The UTF-8 text of a regular file. Raises OSError, ValueError when it is larger than `most` bytes or no text."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most >> 20} MiB")
    return content.decode("utf-8")


# The sha256 of a file, and one of several files: what plans, locks, manifests and consents keep.


TRAVELS = ("__init__.py", "contract", "rewards", "worker")
"""What of this package travels: each run folder gets a copy of these files and folders, and trains with it alone."""


def file_sha256(path: str | Path) -> str:
    """The digest of a regular file's bytes. Raises OSError if it cannot be read."""
    with open_regular(path) as file:
        return open_sha256(file)


def open_sha256(file: BinaryIO) -> str:
    """The digest of an open file, which is read to its end."""
    return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def files_sha256(files: Iterable[tuple[str, str]], errors: str = "strict") -> str:
    """One digest over the names and the digests of files, in their order.

    errors: of str.encode, for a name that is not UTF-8; no plan can hold such a name. Raises UnicodeEncodeError.
    """
    lines = (f"{digest} ".encode() + name.encode(errors=errors) + b"\n" for name, digest in files)
    return hashlib.sha256(b"".join(lines)).hexdigest()
