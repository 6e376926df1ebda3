"""Whether what a run folder says of itself is what was written into it."""

import os
from pathlib import Path

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.integrity.run_folder import (
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    plan_fault,
    record_fault,
)
from grpo_recipes.contract.integrity.seal import INTEGRITY_FILE
from grpo_recipes.contract.integrity.used_run import how_to_mend, used_run
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
        said.append(_words_of_old(lock))
    record = record_fault(folder)
    if record is not None:
        said.append(f"{RECORD_FILE} is not as grpo-run wrote it: {record}")
    return said


def refuse_damaged(lock: Lock, weights: str | None, *, own_model: str | None = None) -> list[str]:
    """What has to be said of a run whose weights are used. Raises Refusal where a file is not as the run wrote it.

    weights, own_model: as used_run has them; all of their files are read.
    """
    used = used_run(Path(lock.folder), weights, own_model=own_model)
    if used.fault is not None:
        is_made_anew = own_model is not None and used.fault.name.startswith(f"{own_model}/")
        raise Refusal.of(
            f"{lock.folder}: {used.fault.words}",
            because=f"it {used.fault.because}",
            fix=f"remove {own_model}; it is made anew" if is_made_anew else how_to_mend(used.fault),
        )
    return [_words_of_old(lock)] if used.is_old else []


def _words_of_old(lock: Lock) -> str:
    return f"{lock.folder} carries no content hashes, of an older grpo-run: not all damage would be noticed"
