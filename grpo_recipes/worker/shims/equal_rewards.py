"""Trains a group whose completions are all worth the same by nothing, instead of by what float32 rounds.

Defect: TRL divides the differences to the mean of a group by their deviation and 1e-4. Where the mean of equal rewards
is rounded, as that of eight times 1.2 is, neither is zero: advantages of 0.001, which Adam turns into updates of full
size, and with normalize_then_sum advantages of 1. Other releases, group sizes and devices round otherwise.
Seen: trl 0.15.2, 0.23.1 and 1.16.0; the same arithmetic in all of them from 0.14.0 on.
Remove when: TRL compares the rewards of a group with a tolerance relative to their size.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import watch_groups


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Sets the advantages of groups without variance to zero; those of other groups stay bit for bit."""

    def zero(equal: Any, own: Any, found: dict[str, Any]) -> None:
        if own.any():
            found["advantages"][own.to(found["advantages"].device)] = 0.0

    watch_groups(trainer, zero)
    return "advantages of groups without variance are zero"
