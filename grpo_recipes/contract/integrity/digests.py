"""Lists the files of a folder and computes their sha256.

On processors with SHA instructions, sha256 is the fastest digest of the standard library, two to four times as fast as
blake2b. It releases the GIL, so several threads read files at once.
"""

import os
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_read, walk
from grpo_recipes.contract.files.regular_file import open_sha256

_MOST_THREADS = 8
# Leftovers of file managers and network file systems, which nothing reads.
_LEFT_BY_SYSTEMS = (".DS_Store", "Thumbs.db", "desktop.ini")
_LEFT_PREFIXES = ("._", ".nfs", ".fuse_hidden", ".smbdelete")


@dataclass(frozen=True, slots=True)
class Digest:
    """The size of a file and its sha256, None if only the size is known."""

    size: int
    sha256: str | None


def sizes_in(folder: Path, part: str = ".") -> dict[str, int | None]:
    """Everything below a part of a folder except folders, sorted, with sizes; None for anything but a regular file.

    Names are relative to the part; links count as irregular. Leftovers of the system are skipped. Raises OSError.
    """
    sizes: dict[str, int | None] = {}
    for name, status in walk(folder, part):
        last = name.rpartition("/")[2]
        if not stat.S_ISDIR(status.st_mode) and last not in _LEFT_BY_SYSTEMS and not last.startswith(_LEFT_PREFIXES):
            sizes[name] = status.st_size if stat.S_ISREG(status.st_mode) else None
    return dict(sorted(sizes.items()))


def digest_of(folder: Path, name: str, *, safe_on_disk: bool = False) -> Digest:
    """The digest of a regular file below a folder, from a single read. Raises OSError.

    safe_on_disk: flushes the file before it is read. If a different machine wrote it, a network file system only
    reports its real size once it is opened.
    """
    with open_to_read(folder, name) as file:
        if safe_on_disk:
            os.fsync(file.fileno())
        digest = open_sha256(file)
        return Digest(file.tell(), digest)


def most_threads(files: int) -> int:
    """The number of threads that read this many files."""
    return min(_MOST_THREADS, os.cpu_count() or 1, max(1, files))


def digests_of(folder: Path, names: Iterable[str], *, safe_on_disk: bool = False) -> dict[str, Digest]:
    """The digests of files below a folder, by name; several are read at once. Raises OSError."""
    wanted = sorted(names)
    with ThreadPoolExecutor(most_threads(len(wanted))) as pool:
        digests = pool.map(lambda name: digest_of(folder, name, safe_on_disk=safe_on_disk), wanted)
        return dict(zip(wanted, digests, strict=True))


def sync_folders(folder: Path) -> None:
    """Flushes the names of everything below a folder to disk. Raises OSError."""
    for where, _, _ in os.walk(folder):
        sync(Path(where))


def sync(path: Path) -> None:
    """Flushes a file, or the names in a folder, to disk. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
