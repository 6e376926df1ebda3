"""The lines of figures that guards look at, made of what the trainer logs."""

import math
from collections.abc import Mapping
from typing import Any

from trl import GRPOTrainer

from grpo_recipes.worker._shared.library import newest_names
from grpo_recipes.worker.guards.alarm import Line

SMALLEST_STD = 1e-6


class Lines:
    """Makes lines, each of which knows how many steps it covers. Begins after `step`."""

    def __init__(self, arguments: Any, rewards: list[str], step: int = 0) -> None:
        self._rewards, self._step = rewards, step
        # With these the deviations are those of the whole batch, which say nothing of a group.
        of_batch = getattr(arguments, "scale_rewards", "group") == "batch"
        summed = getattr(arguments, "multi_objective_aggregation", "sum_then_normalize") == "sum_then_normalize"
        self._knows_groups = summed and not of_batch

    def line(self, logs: Mapping[str, Any], step: int) -> Line | None:
        """The line of one log; None for what is logged when the training ends, and for a step that was logged."""
        if "loss" not in logs or step <= self._step:
            return None
        steps, self._step = step - self._step, step
        figures = {name: float(value) for name, value in newest_names(dict(logs), self._rewards).items() if _is(value)}
        share = figures.get("frac_reward_zero_std") if self._knows_groups else None
        return Line(step, steps, figures, share, self._varied(figures, share))

    def _varied(self, figures: Mapping[str, float], share: float | None) -> bool | None:
        if share is not None:
            return share < 1
        # Releases without that share log the mean of the deviations of the groups.
        if not self._knows_groups or "reward_std" not in figures or "frac_reward_zero_std" in figures:
            return None
        return figures["reward_std"] > SMALLEST_STD * max(1.0, abs(figures.get("reward", 0.0)))


def _is(value: Any) -> bool:
    """Whether a logged value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def groups_per_step(trainer: Any) -> int:
    """Prompts of one optimizer step over all processes."""
    arguments = trainer.args
    size: int = arguments.per_device_train_batch_size * trainer.accelerator.num_processes
    size *= arguments.gradient_accumulation_steps
    # The oldest release takes prompts, and has no sampler that repeats them.
    is_in_prompts = "_get_train_sampler" not in vars(GRPOTrainer)
    return max(1, size if is_in_prompts else size // arguments.num_generations)
