"""The lowest and highest value that each shipped reward can give."""

from collections.abc import Mapping

from grpo_recipes.rewards.catalog import shipped_reward

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
