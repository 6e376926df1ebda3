"""What binds the sealed files of a run to its folder: an id in integrity.json, which record and manifests repeat.

It is drawn when a run folder is written and knows no path, so a folder that is moved or copied whole stays as it was.
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
    """The id of a run folder; None where an older grpo-run wrote it, and where integrity.json is lost or unreadable.

    A run writes its record each second, so the head is read, as it is written, and no seal is opened.
    """
    try:
        with open_to_read(folder, INTEGRITY_FILE) as file:
            found = _HEAD.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return None if found is None else found[1].decode()


def with_run_id(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of a run folder, with the id of that; without one where the folder has none."""
    others, own = {key: value for key, value in content.items() if key != RUN_ID}, run_id(folder)
    return others if own is None else {**others, RUN_ID: own}


def refuse_another_run(folder: Path, content: Mapping[str, Any]) -> None:
    """Raises Damaged where a file of a run folder has the content of another run's."""
    own = run_id(folder)
    if own is not None and content.get(RUN_ID) != own:
        raise Damaged("it is that of another run")
