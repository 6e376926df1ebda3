"""Whether what a run folder says of itself is what was written into it."""

import os
from pathlib import Path

from grpo_recipes.contract.integrity.run_folder import (
    INTEGRITY_FILE,
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    plan_fault,
    record_fault,
)
from grpo_recipes.errors import Refusal
from grpo_recipes.lock.read_lock import Lock


def refuse_changed(lock: Lock) -> list[str]:
    """What has to be said of a run folder. Raises Refusal for a plan.json that is not the one that was written."""
    folder = Path(lock.folder)
    if not lock.is_run_folder or os.path.basename(lock.path) != PLAN_FILE:
        return []
    because = plan_fault(folder)
    if because is not None:
        raise Refusal.of(
            f"{lock.path}: the plan was changed after it was written",
            because=because,
            fix=f"bring it back from a copy, or plan again: grpo-run {folder / 'recipe.yaml'} --out FOLDER; "
            "for another plan change recipe.yaml",
        )
    said = []
    if is_lost(folder):
        said.append(f"{INTEGRITY_FILE} is missing, so nobody can tell whether {PLAN_FILE} is the one that was written")
    elif not (folder / INTEGRITY_FILE).exists():
        said.append(f"{lock.folder} carries no content hashes, of an older grpo-run: not all damage would be noticed")
    record = record_fault(folder)
    if record is not None:
        said.append(f"{RECORD_FILE} is not as grpo-run wrote it: {record}")
    return said
