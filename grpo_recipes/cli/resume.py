"""`grpo-run RUNDIR --resume`: goes on with an interrupted run, exactly as its plan says."""

import os

from grpo_recipes.cli.launching import ask_trust, launched
from grpo_recipes.errors import Refusal
from grpo_recipes.plan import from_json
from grpo_recipes.record.run_record import read_record

PLAN_FILE = "plan.json"


def resume(folder: str, allowed: tuple[str, ...], *, as_json: bool) -> int:
    """Continues from the newest whole checkpoint. Raises Refusal for a folder that cannot be continued."""
    try:
        with open(os.path.join(folder, PLAN_FILE), encoding="utf-8") as file:
            plan = from_json(file.read())
    except OSError as error:
        raise Refusal(f"{folder} is no run folder\n  = because: {PLAN_FILE}: {error.strerror or error}") from None
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise Refusal(f"{os.path.join(folder, PLAN_FILE)} is no plan of this release\n  = because: {first}") from None
    record = read_record(folder)
    if record is not None and record.status == "completed":
        raise Refusal(f"{folder} is finished\n  = fix: grpo-run with its recipe.yaml trains again")
    ask_trust(plan, allowed)
    return launched(folder, as_json=as_json, resume=True)
