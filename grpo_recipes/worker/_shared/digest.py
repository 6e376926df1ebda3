"""The sha256 of a file."""

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The digest of the file's bytes in lower-case hexadecimal. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
