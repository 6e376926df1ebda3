"""The rewards of a run's first completions, for the note that almost none earns anything."""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.completions.kept_completions import last_texts
from grpo_recipes.worker.guards.zero_variance import FirstRewards


def first_rewards(trainer: Any, plan: Plan) -> FirstRewards | None:
    """Returns what watches them; None if an evaluation before the first step does."""
    if plan.evaluation is not None and plan.evaluation.at_start:
        return None
    count = groups_per_step(trainer) * trainer.args.num_generations
    return FirstRewards(count, sum(abs(reward.weight) for reward in plan.rewards), lambda: last_texts(trainer))


def groups_per_step(trainer: Any) -> int:
    """Returns the prompts per optimizer step over all processes."""
    arguments = trainer.args
    size: int = arguments.per_device_train_batch_size * trainer.accelerator.num_processes
    size *= arguments.gradient_accumulation_steps
    # The oldest release counts batches in prompts, and has no sampler that repeats them.
    counts_completions = trainer.seams.does("batches count completions")
    return max(1, size // arguments.num_generations if counts_completions else size)
