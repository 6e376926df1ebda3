"""The cache of grpo-run for values that are expensive to compute; an unreadable entry is computed again."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import open_regular


def cache_folder() -> Path | None:
    """The cache folder of grpo-run, None for a user without a home. A relative XDG_CACHE_HOME is ignored."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(configured):
        return Path(configured, "grpo-run")
    try:
        return Path.home() / ".cache" / "grpo-run"
    except RuntimeError:
        return None


def read_cache(name: str, most: int) -> Any:
    """The JSON value of a cache file, None if it cannot be read. most: the largest size accepted, in bytes."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        with open_regular(folder / name) as file:
            # A file of a different user could make wrong values look right.
            is_own = os.fstat(file.fileno()).st_uid == os.getuid()
            return json.loads(file.read(most + 1)) if is_own else None
    except (OSError, ValueError, RecursionError):
        return None


def write_cache(name: str, value: object) -> bool:
    """Writes a cache file completely or not at all, and returns whether it did; failures are ignored."""
    from grpo_recipes.contract.files.folder_files import write_whole

    folder = cache_folder()
    if folder is None:
        return False
    with contextlib.suppress(OSError):
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder, name, json.dumps(value), mode=0o600)
        return True
    return False
