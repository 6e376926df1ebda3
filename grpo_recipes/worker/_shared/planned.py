"""Reads plan.json for the worker. The worker has no defaults: a missing key stops it."""

from pathlib import Path

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.integrity.run_folder import plan_fault
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan, plan_of
from grpo_recipes.worker._shared.replacing import Refused

# The plan's device_map if each process holds the whole model on its own device.
ON_OWN_DEVICE = "local_rank"


def own_model_folder(plan: Plan, folder: Path) -> Path:
    """Returns the folder of a model that the run writes before training: with added tokens, or merged."""
    return folder / ("extended_model" if plan.tokenizer.add_tokens else "merged_model")


def model_path(plan: Plan, folder: Path) -> str:
    """Returns what the trainer loads: the planned model, or the copy written into the run folder."""
    return str(own_model_folder(plan, folder)) if plan.trains_a_copy else plan.model.path


def dequantized_folder(folder: Path) -> Path:
    """Returns the folder of the dequantized base model, for a vLLM that is sent only the adapter."""
    return folder / "dequantized_model"


def model_of_sampler(plan: Plan, folder: Path) -> tuple[str, str | None]:
    """Returns what vLLM loads, and its revision: a quantized policy's dequantized base, else the trainer's model."""
    if plan.samples_a_copy:
        return str(dequantized_folder(folder)), None
    return model_path(plan, folder), model_revision(plan)


def model_revision(plan: Plan) -> str | None:
    """Returns the revision of the hub model, None for a folder."""
    return None if plan.trains_a_copy else plan.model.commit or plan.model.revision


def dtype_keyword(plan: Plan) -> dict[str, str]:
    """Returns the planned dtype under this transformers' name for it, {} if the plan sets none."""
    planned = plan.arguments.model_init_kwargs
    return {name: str(planned[name]) for name in ("dtype", "torch_dtype") if planned.get(name) is not None}


def calls_tools(plan: Plan) -> bool:
    """Whether the policy can call tools while it generates."""
    return bool(plan.tools) or bool(plan.all_environments)


def trust_remote_code(plan: Plan) -> bool:
    """Whether the model's own code may run; in newer releases it is a training argument."""
    places = (plan.arguments.GRPOConfig, plan.arguments.model_init_kwargs)
    return any(arguments.get("trust_remote_code") is True for arguments in places)


def read_plan(folder: Path) -> Plan:
    """Returns the plan of a run folder. Raises Refused if it is missing, in another format or lacks a key."""
    try:
        return plan_of(read_json(folder, "plan.json"))
    except NotAPlan as problem:
        because = f"{problem}, and the worker has no defaults"
        raise _refusal(folder, "this worker cannot run this plan", because) from problem
    except (OSError, ValueError) as problem:
        raise _refusal(folder, "the plan cannot be read", str(problem)) from problem


def refuse_changed_plan(folder: Path) -> None:
    """Raises Refused if plan.json has changed since it was written into the run folder."""
    because = plan_fault(folder)
    if because is not None:
        raise _refusal(folder, "the plan was changed after it was written", because)


def _refusal(folder: Path, what: str, because: str) -> Refused:
    fix = "restore it from a copy, or run recipe.yaml next to it in a new folder"
    return Refused.of(f"{folder / 'plan.json'}: {what}", because=because, fix=fix)
