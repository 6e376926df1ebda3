"""plan.json as the worker sees it. The worker has no default for anything: a missing key stops it."""

from pathlib import Path

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.integrity.run_folder import plan_fault
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan, plan_of
from grpo_recipes.worker.stopped import Stopped


def extended_model_folder(folder: Path) -> Path:
    """Where the model with added tokens lies in a run folder."""
    return folder / "extended_model"


def model_path(plan: Plan, folder: Path) -> str:
    """What trainer and vLLM load: the planned model, or the one of the run folder that has the added tokens."""
    return str(extended_model_folder(folder)) if plan.tokenizer.add_tokens else plan.model.path


def model_revision(plan: Plan) -> str | None:
    """Of the hub's model that is loaded, None for a folder."""
    return None if plan.tokenizer.add_tokens else plan.model.commit or plan.model.revision


def read_plan(folder: Path) -> Plan:
    """The plan of a run folder. Raises Stopped if it is missing, of another format or lacks a key."""
    path = folder / "plan.json"
    try:
        content = read_json(folder, "plan.json")
    except (OSError, ValueError) as problem:
        raise Stopped(
            f"{path}: the plan cannot be read\n  = because: {problem}\n"
            f"  = fix: bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
        ) from problem
    try:
        return plan_of(content)
    except NotAPlan as problem:
        raise Stopped(
            f"{path}: not a plan that this worker carries out\n  = because: {problem}, and the worker decides nothing\n"
            f"  = fix: bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
        ) from problem


def stop_at_changed_plan(folder: Path) -> None:
    """Raises Stopped for a plan.json that is not the one that was written into the run folder."""
    because = plan_fault(folder)
    if because is not None:
        raise Stopped(
            f"{folder / 'plan.json'}: the plan was changed after it was written\n  = because: {because}\n"
            f"  = fix: bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
        )
