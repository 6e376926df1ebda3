"""TRL can weight the rewards.

TRL 0.15 added reward_weights. TRL 0.14 adds up the rewards, so every weight must be 1.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "RWD003"
APPLIES_TO = {"trl": "<0.15"}


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        if reward["weight"] == 1:
            continue
        message = f"reward {index + 1} has weight {reward['weight']}, but this TRL ignores weights"
        because = f"trl {context.stack.version('trl')} adds up the rewards without weights"
        fix = "weight: 1.0 with the factor in the reward's code, or trl==0.15.2"
        yield context.wrong(message, "rewards", because, 1.0, at=("rewards", index, "weight"), fix=fix)
