"""The lines of figures that guards look at, made of what the trainer logs."""

import math
from collections.abc import Mapping
from typing import Any

from trl import GRPOTrainer

from grpo_recipes.contract.metrics import without_variance
from grpo_recipes.worker._shared.library import newest_names
from grpo_recipes.worker.guards.alarm import Line


class Lines:
    """Makes lines, each of which knows how many steps it covers. Begins after `step`."""

    def __init__(self, rewards: list[str], step: int = 0) -> None:
        self._rewards, self._step = rewards, step
        self._answered: dict[str, bool] = {}

    def line(self, logs: Mapping[str, Any], step: int) -> Line | None:
        """The line of one log; None for what is logged when the training ends, and for a step that was logged."""
        if "loss" not in logs or step <= self._step:
            return None
        steps, self._step = step - self._step, step
        named = newest_names(dict(logs), self._rewards)
        figures = {name: float(value) for name, value in named.items() if _is(value)}
        for name in named:
            if name.startswith("rewards/") and name.endswith("/mean"):
                reward = name.removeprefix("rewards/").removesuffix("/mean")
                self._answered[reward] = self._answered.get(reward, False) or name in figures
        share = without_variance(figures)
        if share is None and figures.get("reward_std"):
            share = 0.0  # of a run of an older worker on trl before 0.18, which logged nothing else: it may have varied
        return Line(step, steps, figures, share)

    def without_answer(self) -> list[str]:
        """The rewards of which no number was logged so far: they gave None to every completion."""
        return [name for name, is_answered in self._answered.items() if not is_answered]


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
