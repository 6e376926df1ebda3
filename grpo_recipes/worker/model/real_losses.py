"""Keeps a step's losses and gradient norm before transformers' filter replaces them."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from grpo_recipes.contract.metrics import REWARDS
from grpo_recipes.worker._shared.library import on_any
from grpo_recipes.worker.guards import not_finite
from grpo_recipes.worker.guards.alarm import Alarm
from grpo_recipes.worker.model.trained_tensors import own_part, trainable


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
        standing = ExitStack()
        self.leave = standing.close
        for event, layer in (("micro-batch is trained", self._train), ("gradient is clipped", self._clip)):
            standing.callback(trainer.seams.change(event, "real losses", layer))

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
        strange = None if reward is None or math.isfinite(reward) else f"{reward}{self._infinite_rewards()}"
        return not_finite.in_step(what, value, strange, *broken_tensors(self._trainer.model))

    def _infinite_rewards(self) -> str:
        """Returns the names of the rewards with an infinite mean, to end a sentence; "" if none is known."""
        means = [(name, values) for name, values in self._trainer.seams.figures().items() if name.startswith(REWARDS)]
        names = [name.removeprefix(REWARDS) for name, values in means if values and math.isinf(values[-1])]
        return f": {', '.join(name.removesuffix('/mean') for name in names)}" if names else ""

    def _mean_reward(self) -> float | None:
        """Returns the last generation's mean reward over all processes; NaN without any reward, None before it."""
        rewards = self._trainer.seams.figures().get("reward")
        return float(rewards[-1]) if rewards else None

    def _train(self, step: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            loss = step(*given, **named)
        except RuntimeError as problem:
            if not_finite.SAMPLING_FAILED in str(problem):
                self._on_broken(self._alarm("probability of a next token", math.nan))
            raise
        self._losses.append(loss.detach())
        return loss

    def _clip(self, clip: Callable[..., Any], *given: Any, **named: Any) -> Any:
        norm = clip(*given, **named)
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
