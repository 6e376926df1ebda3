"""plan.json as the worker sees it. The worker has no default for anything: a missing key stops it."""

from pathlib import Path

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.integrity.run_folder import plan_fault
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan, plan_of
from grpo_recipes.worker._shared.inputs import Refused

# What the plan says as device_map where each process holds the whole model on its own device.
ON_OWN_DEVICE = "local_rank"


def own_model_folder(plan: Plan, folder: Path) -> Path:
    """Where the model lies in a run folder that is written before it is trained: with added tokens, or merged."""
    return folder / ("extended_model" if plan.tokenizer.add_tokens else "merged_model")


def model_path(plan: Plan, folder: Path) -> str:
    """What the trainer loads: the planned model, or the one that is written into the run folder before."""
    return str(own_model_folder(plan, folder)) if plan.trains_a_copy else plan.model.path


def dequantized_folder(folder: Path) -> Path:
    """Where the dequantized base lies in a run folder, for a vLLM that is given the adapter alone."""
    return folder / "dequantized_model"


def sampled_model(plan: Plan, folder: Path) -> tuple[str, str | None]:
    """What vLLM loads, and its revision: the dequantized base of a quantized policy, else what the trainer loads."""
    if plan.samples_a_copy:
        return str(dequantized_folder(folder)), None
    return model_path(plan, folder), model_revision(plan)


def model_revision(plan: Plan) -> str | None:
    """Of the hub's model that is loaded, None for a folder."""
    return None if plan.trains_a_copy else plan.model.commit or plan.model.revision


def dtype_keyword(plan: Plan) -> dict[str, str]:
    """The planned dtype under the name that this transformers has for it, {} where the plan leaves it open."""
    planned = plan.arguments.model_init_kwargs
    return {name: str(planned[name]) for name in ("dtype", "torch_dtype") if planned.get(name) is not None}


def calls_tools(plan: Plan) -> bool:
    """Whether the policy can call something while it answers."""
    return bool(plan.tools) or bool(plan.all_environments)


def trust_remote_code(plan: Plan) -> bool:
    """Whether the model's own code may run; newer releases take it as an argument of the training."""
    places = (plan.arguments.GRPOConfig, plan.arguments.model_init_kwargs)
    return any(place.get("trust_remote_code") is True for place in places)


def read_plan(folder: Path) -> Plan:
    """The plan of a run folder. Raises Refused if it is missing, of another format or lacks a key."""
    try:
        return plan_of(read_json(folder, "plan.json"))
    except NotAPlan as problem:
        because = f"{problem}, and the worker decides nothing"
        raise _refused(folder, "not a plan that this worker carries out", because) from problem
    except (OSError, ValueError) as problem:
        raise _refused(folder, "the plan cannot be read", str(problem)) from problem


def refuse_changed_plan(folder: Path) -> None:
    """Raises Refused for a plan.json that is not the one that was written into the run folder."""
    because = plan_fault(folder)
    if because is not None:
        raise _refused(folder, "the plan was changed after it was written", because)


def _refused(folder: Path, what: str, because: str) -> Refused:
    fix = "bring it back from a copy; recipe.yaml beside it trains anew, in another folder"
    return Refused.of(f"{folder / 'plan.json'}: {what}", because=because, fix=fix)
