"""Trains a group whose completions are all worth the same by nothing, instead of by what float32 rounds.

Defect: TRL divides the differences to the mean of a group by their deviation and 1e-4. Where the mean of equal rewards
is rounded, as that of eight times 1.2 is, neither is zero: advantages of 0.001, which Adam turns into updates of full
size, and with normalize_then_sum advantages of 1. Other releases, group sizes and devices round otherwise.
TRL 0.14 computes them inside of its loss, where the factor that each is multiplied with, 1 in every place, becomes 0.
Seen: trl 0.14.0, 0.15.2, 0.23.1 and 1.16.0; the same arithmetic in all of them from 0.14.0 on.
Remove when: TRL compares the rewards of a group with a tolerance relative to their size.
"""

from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import equal_groups_of, hands_advantages_on, watch_groups


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Sets the advantages of groups without variance to zero; those of other groups stay bit for bit."""

    def zero(equal: Any, own: Any, found: dict[str, Any]) -> None:
        if own.any():
            found["advantages"][own.to(found["advantages"].device)] = 0.0

    if hands_advantages_on():
        watch_groups(trainer, zero)
    else:
        grpo_trainer.torch = _TorchOfTheLoss(trainer)
    return "advantages of groups without variance are zero"


class _TorchOfTheLoss:
    """torch for the module of trl 0.14.

    Its loss asks for room for the rewards, fills it, and multiplies exp(x - x.detach()) of each token by its advantage.
    The exp before the rewards is that of the KL.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer, self._rewards = trainer, None

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *size: Any, **named: Any) -> Any:
        self._rewards = torch.zeros(*size, **named)
        return self._rewards

    def exp(self, values: Any) -> Any:
        rewards, self._rewards = self._rewards, None
        if rewards is None:
            return torch.exp(values)
        equal = equal_groups_of(self._trainer, rewards).repeat_interleave(self._trainer.num_generations)
        return torch.exp(values) * (~equal).to(values).unsqueeze(1)
