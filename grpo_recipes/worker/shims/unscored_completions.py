"""Leaves a completion that no function scored out of its group, as TRL does since 1.6.

Defect: TRL adds up missing rewards as 0, so a completion without any reward counts as one with the reward 0: it lowers
the mean of its group and is trained. TRL 0.15 cannot take a missing reward at all. The shim computes advantages as trl
1.16 does, from the rewards that exist; without one, the advantage is 0.
Seen: trl 0.15.2, 0.26.2 and 1.5.0; `unscorable_mask` in grpo_trainer.py came with 1.6.0.
Remove when: trl below 1.6 is no longer supported.
"""

from typing import Any

import torch

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import replace_advantages, reward_weights

SMALLEST = 1e-4


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces the advantages of generations with missing rewards, and their logged mean reward."""

    def advantages(rewards: Any) -> Any:
        total = _total(rewards, rewards, reward_weights(trainer, rewards))
        trainer.seams.figures()["reward"][-1] = total.nanmean().item()
        return _advantages(trainer, rewards, total)

    replace_advantages(trainer, advantages)
    return "completions without a reward leave their group"


def _total(values: Any, rewards: Any, weights: Any) -> Any:
    """Returns (B,), the weighted sum of values (B, K); NaN for a completion without any of the rewards (B, K)."""
    return (values * weights.to(values)).nansum(dim=1).masked_fill(rewards.isnan().all(dim=1), torch.nan)


def _advantages(trainer: Any, rewards: Any, total: Any) -> Any:
    """Returns the advantages of trl 1.16.0 `_generate_and_score_completions`, (B,)."""
    size = trainer.num_generations
    if trainer.seams.value("multi_objective_aggregation") == "normalize_then_sum":
        grouped = rewards.view(-1, size, rewards.shape[1])
        scaled = (grouped - grouped.nanmean(dim=1, keepdim=True)) / (_deviation(grouped) + SMALLEST)
        total = _total(scaled.view_as(rewards), rewards, reward_weights(trainer, rewards))
        return ((total - total.nanmean()) / (_deviation(total, dim=0) + SMALLEST)).nan_to_num(nan=0.0)
    groups = total.view(-1, size)
    # Older releases have true and false, the oldest always scales.
    scaling = getattr(trainer.args, "scale_rewards", True)
    advantages = groups - groups.nanmean(dim=1, keepdim=True)
    if scaling not in (False, "none"):
        advantages = advantages / ((_deviation(total, dim=0) if scaling == "batch" else _deviation(groups)) + SMALLEST)
    return advantages.flatten().nan_to_num(nan=0.0)


def _deviation(values: Any, dim: int = 1) -> Any:
    """Returns the standard deviation along a dimension, which is kept, without NaN; NaN for fewer than two values."""
    apart = (values - values.nanmean(dim=dim, keepdim=True)).square().nansum(dim=dim, keepdim=True)
    count = (~values.isnan()).sum(dim=dim, keepdim=True)
    return (apart / (count - 1)).sqrt().masked_fill(count < 2, torch.nan)
