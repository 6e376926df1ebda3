"""The cache of grpo-run: values that were computed or bought once. Whatever is wrong with it, they are made again."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import open_regular


def cache_folder() -> Path | None:
    """The cache folder of grpo-run, None for a user without a home. XDG_CACHE_HOME must be absolute."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(configured):
        return Path(configured, "grpo-run")
    try:
        return Path.home() / ".cache" / "grpo-run"
    except RuntimeError:
        return None


def kept(name: str, most: int) -> Any:
    """The JSON value of a file of the cache, None where none can be read. most: bytes of it that are read."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        with open_regular(folder / name) as file:
            # A file of another user could make wrong values look right.
            is_own = os.fstat(file.fileno()).st_uid == os.getuid()
            return json.loads(file.read(most + 1)) if is_own else None
    except (OSError, ValueError, RecursionError):
        return None


def keep(name: str, value: object) -> bool:
    """Writes the whole file or nothing, and says which; a cache that cannot be written is left alone."""
    from grpo_recipes.contract.files.folder_files import write_whole

    folder = cache_folder()
    if folder is None:
        return False
    with contextlib.suppress(OSError):
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder, name, json.dumps(value), mode=0o600)
        return True
    return False
