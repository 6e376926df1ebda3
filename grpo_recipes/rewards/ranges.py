"""The lowest and highest value that each shipped reward can give."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grpo_recipes.rewards.catalog import shipped_reward

if TYPE_CHECKING:
    from grpo_recipes.contract.plan import Plan, Reward

_SHARES = frozenset(
    (
        "accuracy",
        "code_tests",
        "completion_length",
        "countdown",
        "exact_match",
        "follows_instruction",
        "function_calls",
        "json_fields",
        "language_consistency",
        "regex_match",
        "tag_format",
        "valid_json",
    )
)
"""Rewards from 0 to 1, whatever their options."""
_BOUNDS = {
    "cosine_scaled": ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct"),
    "repetition_penalty": ("max_penalty", 0.0),
    "soft_overlong_punishment": (-1.0, 0.0),
}
"""The values between which other rewards lie, or the options that hold them."""


def reward_range(name: str, options: Mapping[str, object]) -> tuple[float, float] | None:
    """The lowest and highest value of a shipped reward with these options, both included.

    None for a name that is not shipped, for a reward without known limits, and for options that it cannot read.
    """
    signature = shipped_reward(name)
    if name in _SHARES:
        return 0.0, 1.0
    if signature is None or name not in _BOUNDS:
        return None
    given = {**signature.options, **options}
    bounds = [given.get(bound) if isinstance(bound, str) else bound for bound in _BOUNDS[name]]
    numbers = [float(bound) for bound in bounds if isinstance(bound, int | float) and not isinstance(bound, bool)]
    return (min(numbers), max(numbers)) if len(numbers) == len(bounds) else None


def planned_range(reward: "Reward") -> tuple[float, float]:
    """The lowest and highest value of a reward of a plan, infinite if it has no known limits."""
    known = reward_range(reward.target, reward.kwargs) if reward.kind == "shipped" else None
    return known or (-math.inf, math.inf)


def range_of_sum(plan: "Plan", names: Sequence[str] = ()) -> tuple[float, float]:
    """The lowest and highest weighted sum of these rewards of a plan, of all without names; a missing reward is 0."""
    counted = [reward for reward in plan.rewards if not names or reward.name in names]
    ends = [(0.0, *(reward.weight * end for end in planned_range(reward))) for reward in counted]
    ends += [(-math.inf, math.inf)] * bool(plan.all_environments)
    return math.fsum(map(min, ends)), math.fsum(map(max, ends))
