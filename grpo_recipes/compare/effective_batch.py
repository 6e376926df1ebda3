"""What one optimizer step trains on, whichever fields a plan passes for it."""

from grpo_recipes.contract.plan import Plan

# What is said here instead of one by one.
SAID_BY = (
    "training.prompts_per_step",
    "grpo.num_generations",
    "grpo.optimizer_steps_per_generation",
    "trl.steps_per_generation",
    "trl.generation_batch_size",
    "GRPOConfig.steps_per_generation",
    "GRPOConfig.generation_batch_size",
)


def effective_batch(plan: Plan) -> dict[str, object]:
    """Prompts and completions of an optimizer step over all processes, and how generations feed steps.

    A share of a prompt group, which TRL's own fields can make, is a number with a decimal point.
    """
    batch = plan.batch
    steps = batch.steps_per_generation / batch.accumulation
    prompts = batch.prompts / steps
    return {
        "prompts per optimizer step": _whole(prompts),
        "completions per optimizer step": _whole(prompts * batch.num_generations),
        "completions per prompt": batch.num_generations,
        "optimizer steps per generation": _whole(steps),
    }


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else round(value, 6)
