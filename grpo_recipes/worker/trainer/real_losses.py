"""Keeps a step's losses and gradient norm before transformers' filter replaces them."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from grpo_recipes.worker._shared.inputs import replaced
from grpo_recipes.worker._shared.library import on_any
from grpo_recipes.worker.guards import not_finite
from grpo_recipes.worker.guards.alarm import Alarm
from grpo_recipes.worker.trainer.trained_tensors import own_part, trainable


class RealLosses:
    """Wraps `trainer.training_step` and `accelerator.clip_grad_norm_` until leave() is called.

    on_broken: called at once if sampling fails because the model's probabilities are not finite. Only found() waits for
    the device, once per step.
    """

    def __init__(self, trainer: Any, on_broken: Callable[[Alarm], None]) -> None:
        self._trainer, self._on_broken = trainer, on_broken
        self._losses: list[Any] = []
        self._norm: Any = None
        self._steps = 0
        self._training_step, self._clip = trainer.training_step, trainer.accelerator.clip_grad_norm_
        standing = ExitStack()
        # Restores the methods of trainer and accelerator.
        self.leave = standing.close
        standing.enter_context(replaced(trainer, "training_step", self._noted_step))
        standing.enter_context(replaced(trainer.accelerator, "clip_grad_norm_", self._noted_norm))

    def found(self) -> Alarm | None:
        """Returns an alarm if a value was not finite on any process since the last call.

        Call it on all processes, before the optimizer's step. The first step's losses are checked by its proof.
        """
        losses, norm = self._losses, self._norm
        self._losses, self._norm = [], None
        self._steps += 1
        is_loss, is_norm = on_any(self._trainer, _strange(losses), _strange([] if norm is None else [norm]))
        reward = self._mean_reward()
        if reward is not None and math.isinf(reward):
            return self._alarm("mean reward", reward)
        if is_loss and self._steps > 1:
            values = [float(loss) for loss in losses]
            return self._alarm("loss", next((v for v in values if not math.isfinite(v)), math.nan))
        if is_norm and not is_loss:
            return self._alarm("gradient norm", float(_plain(norm)))
        return None

    def found_in_weights(self) -> Alarm | None:
        """Returns an alarm if trained weights are not finite. All processes must call it."""
        broken, tensors = broken_tensors(self._trainer.model)
        (is_broken,) = on_any(self._trainer, broken > 0)
        return not_finite.at_end(broken, tensors) if is_broken else None

    def _alarm(self, what: str, value: float) -> Alarm:
        reward = self._mean_reward()
        strange = None if reward is None or math.isfinite(reward) else reward
        return not_finite.in_step(what, value, strange, *broken_tensors(self._trainer.model))

    def _mean_reward(self) -> float | None:
        """Returns the last generation's mean reward over all processes; NaN without any reward, None before it."""
        kept = self._trainer._metrics
        rewards = kept.get("train", kept).get("reward")
        return float(rewards[-1]) if rewards else None

    def _noted_step(self, *given: Any, **named: Any) -> Any:
        try:
            loss = self._training_step(*given, **named)
        except RuntimeError as problem:
            if not_finite.SAMPLING_FAILED in str(problem):
                self._on_broken(self._alarm("probability of a next token", math.nan))
            raise
        self._losses.append(loss.detach())
        return loss

    def _noted_norm(self, *given: Any, **named: Any) -> Any:
        norm = self._clip(*given, **named)
        # A loss scaler skips steps with an infinite gradient, which is normal at the start.
        self._norm = norm if self._trainer.accelerator.scaler is None else None
        return norm


def broken_tensors(model: Any) -> tuple[int, int]:
    """Returns how many trained tensors contain a non-finite number, and how many exist, in this process's parts."""
    flags = [torch.isfinite(own_part(tensor)).all() for tensor in trainable(model).values()]
    return sum(not bool(flag) for flag in flags), len(flags)


def _strange(values: list[Any]) -> Any:
    """Returns whether any value is not finite, as a flag on the values' device."""
    flags = [~torch.isfinite(torch.as_tensor(_plain(value))).all() for value in values]
    return torch.stack(flags).any() if flags else False


def _plain(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value
