"""The lists of what this user has allowed: files in the user's folder, changed by one writer at a time."""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.files.regular_file import read_text

CODE, FOLDERS = "allowed", "folders"
_LARGEST_BYTES = 16 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoHome(OSError):
    """The home folder of this user is unknown, so no list can be kept."""


def list_file(name: str) -> Path:
    """The file of a list in $XDG_CONFIG_HOME/grpo-run, or in ~/.config/grpo-run. Raises NoHome."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):  # the XDG specification says to ignore relative paths
        home = os.path.join(os.path.expanduser("~"), ".config")
    if not os.path.isabs(home):
        raise NoHome(None, "this user has no home folder; set XDG_CONFIG_HOME to an absolute path")
    return Path(home, "grpo-run", f"{name}.json")


def entries(name: str) -> list[Any]:
    """The entries of a list, none if it does not exist. Raises OSError, and ValueError for anything but a list."""
    try:
        content = parse_json(read_text(list_file(name), _LARGEST_BYTES).encode())
    except (FileNotFoundError, NoHome):
        return []
    listed = content.get(name) if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise ValueError(f"it has no list named {name}")
    return listed


def replace_entries(name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Replaces the entries of a list atomically. Raises OSError and ValueError."""
    file = list_file(name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock_lists(file):
        write_whole(file.parent, file.name, json.dumps({name: change(entries(name))}, indent=1) + "\n", 0o600)


@contextlib.contextmanager
def _lock_lists(file: Path) -> Iterator[None]:
    """Locks the lists for one writer; does nothing if the file system has no locks."""
    lock = os.open(file.with_name(".allowed.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_digest_allowed(sha256: str) -> bool:
    """Whether this user has allowed code by its digest; False if the list cannot be read."""
    try:
        return sha256 in entries(CODE)
    except (OSError, ValueError):
        return False


def with_digests(new: Iterable[str]) -> Callable[[list[Any]], list[Any]]:
    """The change that adds digests to the list of allowed code."""
    return lambda known: sorted({*filter(_is_digest, known), *new})


def _is_digest(entry: object) -> bool:
    return isinstance(entry, str) and _SHA256.fullmatch(entry) is not None
