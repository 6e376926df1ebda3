"""Rewards are large enough to move the policy away from the reference model.

With `beta` above 0 the loss holds the policy near the reference model. For a reward r the best policy is the
reference's probability times exp(r / beta), so a right answer can become at most exp(range / beta) times as likely,
compared with a wrong one, as it was before. TRL divides advantages by their standard deviation unless
`scale_rewards: none`; only then does the size of the rewards count. With a weight of 0.01 and beta 0.1 that is a factor
of 1.1, whatever the model learns. The rule reports a factor below 2, if all rewards are shipped ones, whose ranges are
known.
"""

import math
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rewards.ranges import reward_range
from grpo_recipes.rules._shared.context import Context

ID = "RWD016"
BETA, SCALE = "GRPOConfig.beta", "GRPOConfig.scale_rewards"
LEAST_FACTOR = 2.0


def check(context: Context) -> Iterator[Finding]:
    beta, rewards = context.value(BETA), context.items("rewards")
    if not isinstance(beta, int | float) or beta <= 0 or context.value(SCALE) not in ("none", False) or not rewards:
        return
    total = 0.0
    for reward in rewards:
        options = reward.get("options")
        limits = reward_range(str(reward.get("name")), options if isinstance(options, dict) else {})
        if limits is None:
            return
        total += abs(float(reward["weight"])) * (limits[1] - limits[0])
    if 0 < total < beta * math.log(LEAST_FACTOR):
        yield context.finding(
            f"beta {beta:g} outweighs rewards that differ by {total:g} in all",
            BETA,
            [
                f"a right answer can become at most exp({total:g} / {beta:g}) = {math.exp(total / beta):.2f} times as"
                " likely, compared with a wrong one",
                "with scale_rewards: none the advantages are as large as the rewards",
            ],
            fix="a smaller beta, or larger weights",
            severity="warning",
        )
