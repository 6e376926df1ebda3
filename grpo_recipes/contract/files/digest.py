"""The sha256 of a file, and one of several files: what plans, locks, manifests and consents keep."""

import hashlib
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from grpo_recipes.contract.files.regular_file import open_regular

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
