"""Each reward function returns one finite number for each completion.

What: a single number or a text instead of a list, more or fewer values than completions, values that are not numbers,
infinite values. None and NaN are allowed; they mean "no reward".
Why: TRL raises at the first step, after the first generation, for all but infinity. Infinity makes the advantages of
its whole group NaN, which TRL replaces with 0: the run continues, and learns nothing from such a group.
Fix: return [score(completion) for completion in completions].
Example: reward length returned a single float, not one number for each completion
Source: trl's grpo_trainer.py (_calculate_rewards; torch.tensor(..., dtype=torch.float32)).
"""

import math
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import RewardSeen, by_case
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import completions_have_the_shape

ID = "PFL022"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        failed = reward.failed
        if failed is not None and failed.kind == "wrong" and not completions_have_the_shape.explains(reward):
            yield mistake(
                f"reward {reward.name} returned {failed.error}, not one number for each completion",
                reward.key,
                because=f"it was called with {len(failed.entries)} completions",
                fix="return [score(completion) for completion in completions]",
            )
        yield from _infinite(reward)


def _infinite(reward: RewardSeen) -> Iterator[Finding]:
    call = reward.judged
    if call is None:
        return
    infinite = (math.inf, -math.inf)
    cases = [case for case, values in by_case(call).items() if any(value in infinite for value in values)]
    if cases:
        yield mistake(
            f"reward {reward.name} is infinite for these completions: {join_items(cases)}",
            reward.key,
            because="the advantages of its whole group become NaN, which trl replaces with 0, and teach nothing",
            fix="return a large finite number, or 0.0",
        )
