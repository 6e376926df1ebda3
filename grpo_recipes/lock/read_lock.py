"""A plan that was written, with the run that it belongs to."""

import os
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.contract.integrity.run_folder import (
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    plan_fault,
    record_fault,
)
from grpo_recipes.contract.integrity.seal import INTEGRITY_FILE
from grpo_recipes.contract.integrity.used_run import how_to_mend, used_run
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.contract.run_record import RunRecord, read_record
from grpo_recipes.stack.stack import from_json_value

LARGEST_PLAN_BYTES = 32 * 1024**2
MOST_VALUES = 500_000
"""Values of a plan; one of a model of 100,000 files has 200,000. Each takes a hundred times the memory of its text."""


@dataclass(frozen=True, slots=True)
class Lock:
    """path: of the plan, absolute. folder: that it lies in. record: of the run there, None without one.

    is_run_folder: the folder has what a run needs beside the plan, its own copies of reward files too.
    """

    plan: Plan
    path: str
    folder: str
    record: RunRecord | None
    is_run_folder: bool

    @property
    def verified(self) -> dict[str, object]:
        """What the worker of that run found, which it has to find again; else what the plan itself asks for."""
        found = None if self.record is None else self.record.verified
        return {**self.plan.verified, **(found if isinstance(found, dict) else {})}


def read_lock(place: str) -> Lock:
    """The plan of a run folder, or of a file. Raises Refusal for what is no plan of this release."""
    path = os.path.join(place, PLAN_FILE) if os.path.isdir(place) else place
    try:
        text = read_text(path, LARGEST_PLAN_BYTES)
        if text.count(",") > MOST_VALUES or text.count("{") + text.count("[") > MOST_VALUES // 5:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        plan = from_json(text)
        from_json_value(plan.stack)
    except OSError as error:
        if path == place:
            raise Refusal.of(
                f"{path} cannot be read",
                because=str(error.strerror or error),
                fix=f"name a recipe, a run folder or its {PLAN_FILE}",
            ) from None
        raise Refusal.of(
            f"{place} is not a run folder",
            because=f"{PLAN_FILE}: {error.strerror or error}",
            fix=f"{place}.yaml, if you meant that"
            if os.path.isfile(f"{place}.yaml")
            else "name a recipe, or the folder of a run; without --out they are in runs/",
        ) from None
    except (ValueError, RecursionError) as error:
        raise Refusal.of(
            f"{path} is no plan of this release", because=str(error).splitlines()[0], fix=_fix(path)
        ) from None
    folder = os.path.dirname(os.path.abspath(path))
    is_run_folder = os.path.isfile(os.path.join(folder, "launch.sh"))
    return Lock(plan, os.path.abspath(path), folder, read_record(folder) if is_run_folder else None, is_run_folder)


def _fix(path: str) -> str:
    """The way back to a plan: its run folder has the recipe that it was made of."""
    recipe = os.path.join(os.path.dirname(path), "recipe.yaml")
    anew = f", or plan again: grpo-run {recipe} --out FOLDER" if os.path.isfile(recipe) else ""
    return f"bring it back from a copy{anew}"


# Whether what a run folder says of itself is what was written into it.


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
