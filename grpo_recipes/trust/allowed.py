"""The digests of code that this user has allowed to run, remembered in a file of the user's own."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from grpo_recipes.errors import Refusal
from grpo_recipes.folder_files import write_whole

_SHA256 = re.compile(r"[0-9a-f]{64}")


def allowed_file() -> Path:
    """Where the digests are: $XDG_CONFIG_HOME/grpo-run/allowed.json, ~/.config without that variable."""
    home = os.environ.get("XDG_CONFIG_HOME")
    # The XDG specification says that a relative path is to be ignored.
    base = Path(home) if home and os.path.isabs(home) else Path.home() / ".config"
    return base / "grpo-run" / "allowed.json"


def _read() -> set[str]:
    path = allowed_file()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {sha for sha in content["allowed"] if _SHA256.fullmatch(sha)}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Refusal(
            f"{path}: the list of allowed code cannot be read\n"
            f"  = because: {type(problem).__name__}: {problem}\n"
            f"  = fix: remove the file and allow again what you trust"
        ) from problem


def is_allowed(sha256: str) -> bool:
    """Whether this user has allowed the code with this digest. Raises Refusal if the list is unreadable."""
    return sha256 in _read()


def allow(sha256s: Iterable[str]) -> None:
    """Remembers digests for this user; the file is replaced at once and only its owner can read it.

    Raises ValueError for anything but 64 lower-case hexadecimal digits, Refusal where nothing can be remembered.
    """
    new = set(sha256s)
    for sha in new:
        if not _SHA256.fullmatch(sha):
            raise ValueError(f"not a sha256: {sha!r}")
    known = _read()
    if new <= known:
        return
    path = allowed_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.parent, path.name, json.dumps({"allowed": sorted(known | new)}, indent=2) + "\n", 0o600)
    except OSError as problem:
        raise Refusal(
            f"{path}: the list of allowed code cannot be written\n"
            f"  = because: {problem.strerror or problem}\n"
            f"  = fix: make room for it and let this user write there; XDG_CONFIG_HOME names another place"
        ) from problem
