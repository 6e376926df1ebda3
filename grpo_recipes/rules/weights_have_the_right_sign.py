"""A reward differs between completions, and its weight has the right sign.

A shipped reward that penalizes, such as repetition_penalty, is 0 at best, and its weight is above 0: a negative weight
turns the penalty into a reward. A negative weight on a reward that compares with the right answer trains wrong answers.
A reward whose options leave it only one value, such as max_penalty 0 or a penalty that begins above
max_completion_length, is the same for all completions and trains nothing.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rewards.catalog import LENGTH_OPTIONS, shipped_reward
from grpo_recipes.rewards.ranges import reward_range
from grpo_recipes.rules._shared.context import Context

ID = "RWD013"
LONGEST = "GRPOConfig.max_completion_length"


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        name, weight, options = str(reward.get("name")), reward.get("weight"), reward.get("options")
        signature, limits = shipped_reward(name), reward_range(name, options if isinstance(options, dict) else {})
        if signature is None or limits is None or not isinstance(weight, int | float) or not weight:
            continue
        why = _only_value(context, name, options if isinstance(options, dict) else {}, limits)
        turned = "the penalty" if limits[1] <= 0 else "wrong answers" if signature.columns else None
        if why is not None:
            message, because = f"reward {name} is {limits[1]:g} for every completion", f"{why}, so it trains nothing"
            mark = context.source.mark(("rewards", index))
            fix = "other options, or remove the reward"
            yield context.finding(message, "rewards", because, fix=fix, severity="warning", mark=mark)
        elif weight < 0 and turned is not None:
            message = f"weight {weight:g} turns {turned} of {name} into {'a reward' if limits[1] <= 0 else 'the goal'}"
            because = f"{name} is from {limits[0]:g} to {limits[1]:g}"
            at = ("rewards", index, "weight")
            yield context.wrong(message, "rewards", because, -weight, at=at, severity="warning")


def _only_value(context: Context, name: str, options: dict[str, object], limits: tuple[float, float]) -> str | None:
    """Why a reward has only its highest value, None if it can have others."""
    if limits[0] == limits[1]:
        return "its options leave no other value"
    longest = context.value(LONGEST)
    if not isinstance(longest, int):
        return None
    ngram, end, cache = (options.get(key) for key in ("ngram_size", LENGTH_OPTIONS.get(name, ""), "soft_punish_cache"))
    if name == "repetition_penalty" and isinstance(ngram, int) and ngram >= longest:
        return f"a completion has at most {longest} tokens, and ngram_size is {ngram}"
    if (
        name == "soft_overlong_punishment"
        and isinstance(end, int)
        and isinstance(cache, int)
        and longest <= end - cache
    ):
        return f"it begins after {end - cache} tokens, and a completion has at most {longest}"
    return None
