"""Shows over a network that both sides can read one file of the run folder, without sending what is in it.

A line is sealed for whoever asked for it: its HMAC is over the line, the part of the one who says it, and a number that
the other side drew for this one time.
"""

import hashlib
import hmac
import json
import re
import secrets
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import read_text, write_whole

SEAL = "seal"
_SECRET = re.compile(r"[0-9a-f]{64}")


def write_secret(folder: Path, name: str) -> str:
    """Draws a secret and writes it to a file that this user alone may read. Raises OSError."""
    secret = secrets.token_hex(32)
    write_whole(folder, name, secret, mode=0o600)
    return secret


def read_secret(folder: Path, name: str) -> str | None:
    """The secret in a file, None where there is none that can be read."""
    try:
        text = read_text(folder, name, most=64)
    except (OSError, ValueError):
        return None
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
