"""Gives groups of equal rewards zero advantages, instead of float32 rounding noise.

Defect: TRL divides each reward's difference from the group mean by the standard deviation plus 1e-4. If the mean of
equal rewards is rounded, as for eight rewards of 1.2, neither is zero: advantages are 0.001, which Adam turns into
full-size updates, or 1 with normalize_then_sum. Different releases, group sizes and devices round differently. TRL 0.14
computes advantages inside its loss; there the shim multiplies them by 0 instead of 1.
Seen: trl 0.14.0, 0.15.2, 0.23.1 and 1.16.0; all releases since 0.14.0 use the same arithmetic.
Remove when: TRL compares the rewards of a group with a tolerance relative to their size.
"""

from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import equal_groups_of, hands_advantages_on, watch_groups
from grpo_recipes.worker._shared.replacing import replace


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Sets the advantages of groups without variance to zero; other groups stay bit-for-bit the same."""

    def zero(equal: Any, own: Any, batch: dict[str, Any]) -> None:
        if own.any():
            batch["advantages"][own.to(batch["advantages"].device)] = 0.0

    if hands_advantages_on(trainer):
        watch_groups(trainer, "equal rewards", zero)
    else:
        replace(grpo_trainer, "torch", _TorchOfTheLoss(trainer))
    return "advantages of groups without variance are zero"


class _TorchOfTheLoss:
    """Replaces torch in the module of trl 0.14.

    Its loss allocates room for the rewards, fills it, and multiplies exp(x - x.detach()) of each token by its
    advantage. The exp before the rewards belongs to the KL.
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
