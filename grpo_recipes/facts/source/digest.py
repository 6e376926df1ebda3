"""One digest for the files that the facts of a release are read from."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def files_sha256(folder: Path, names: Iterable[str]) -> str:
    """sha256 over the names and the contents of files of a package. Raises OSError for one that cannot be read."""
    digest = hashlib.sha256()
    for name in sorted(names):
        content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        digest.update(f"{content} {name}\n".encode())
    return digest.hexdigest()
