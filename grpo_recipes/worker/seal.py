"""Shows over a network that both sides can read one file of the run folder, without sending what is in it.

A line is sealed for whoever asked for it: its HMAC is over the line, the part of the one who says it, and a number that
the other side drew for this one time.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

SEAL = "seal"
_SECRET = re.compile(r"[0-9a-f]{64}")


def write_secret(path: Path) -> str:
    """Draws a secret and writes it to a new file that this user alone may read. Raises OSError."""
    secret = secrets.token_hex(32)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(file, secret.encode())
        os.fsync(file)
    finally:
        os.close(file)
    return secret


def read_secret(path: Path) -> str | None:
    """The secret in a file, None where there is none, or not yet a whole one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        text = os.read(file, 65).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    return text if _SECRET.fullmatch(text) else None


def drawn() -> str:
    """A number for one time."""
    return secrets.token_hex(16)


def sealed(content: dict[str, Any], secret: str, part: str, number: str) -> dict[str, Any]:
    """The content with its seal. part: who says it; number: drawn by the side that it is said to."""
    return {**content, SEAL: _seal(content, secret, part, number)}


def is_sealed(content: dict[str, Any], secret: str, part: str, number: str) -> bool:
    """Whether who said this knows the secret, and was asked with this number."""
    told = content.get(SEAL)
    rest = {key: value for key, value in content.items() if key != SEAL}
    return isinstance(told, str) and hmac.compare_digest(
        told.encode("utf-8", "replace"), _seal(rest, secret, part, number).encode()
    )


def _seal(content: dict[str, Any], secret: str, part: str, number: str) -> str:
    text = json.dumps([part, number, content], sort_keys=True)
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
