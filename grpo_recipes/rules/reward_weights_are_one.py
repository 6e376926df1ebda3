"""TRL can weight the rewards.

TRL 0.15 added reward_weights. TRL 0.14 adds up what the reward functions return, so every weight must be 1.
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
        said = f"reward {index + 1} has the weight {reward['weight']}"
        because = f"trl {context.stack.version('trl')} adds the rewards up without weights"
        fix = "weight: 1.0, and the factor in the reward's own code, or trl==0.15.2"
        yield context.wrong(said, "rewards", because, 1.0, at=("rewards", index, "weight"), fix=fix)
