"""At least one reward has a weight.

Rewards are weighed and added up. With every weight 0 the sum is 0 for all completions, every advantage is 0, and the
run trains nothing. A single reward of weight 0 is only measured, which is what it is for.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "RWD007"


def check(context: Context) -> Iterator[Finding]:
    rewards = context.value("rewards")
    weights = [reward["weight"] for reward in rewards] if isinstance(rewards, list) else []
    if weights and all(weight == 0 for weight in weights):
        yield context.finding(
            ID,
            "every reward has the weight 0",
            "rewards",
            because=["the weighted sum is 0 for every completion, so nothing is trained"],
            fix="weight: 1.0",
            patch=[Patch(("rewards", 0, "weight"), 1.0)],
            mark=context.source.mark(("rewards", 0, "weight")),
        )
