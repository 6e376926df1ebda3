"""Binds the sealed files of a run to its folder by an id in integrity.json, which record and manifests repeat.

The id is random and independent of the path, so a run folder can be moved or copied as a whole.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import open_to_read
from grpo_recipes.contract.integrity.seal import Damaged

INTEGRITY_FILE = "integrity.json"
RUN_ID = "run_id"
_HEAD = re.compile(rb'\{\s*"integrity": \d+,\s*"run_id": "([0-9a-f]{32})"')
_HEAD_BYTES = 128


def run_id(folder: Path) -> str | None:
    """The id of a run folder; None if an older grpo-run wrote it, or integrity.json is lost or unreadable.

    A run writes its record every second, so this reads only the beginning of the file and checks no seal.
    """
    try:
        with open_to_read(folder, INTEGRITY_FILE) as file:
            head = _HEAD.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return None if head is None else head[1].decode()


def with_run_id(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of a run folder with the folder's run id added, if it has one."""
    others, own = {key: value for key, value in content.items() if key != RUN_ID}, run_id(folder)
    return others if own is None else {**others, RUN_ID: own}


def refuse_another_run(folder: Path, content: Mapping[str, Any]) -> None:
    """Raises Damaged if the content of a file belongs to a different run."""
    own = run_id(folder)
    if own is not None and content.get(RUN_ID) != own:
        raise Damaged("it belongs to a different run")
