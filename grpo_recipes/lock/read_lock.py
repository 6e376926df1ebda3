"""A plan that was written, with the run that it belongs to."""

import os
from dataclasses import dataclass

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.contract.run_record import RunRecord, read_record
from grpo_recipes.stack.stack import from_json_value

PLAN_FILE = "plan.json"
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
