"""Rewards are scaled as the recipe says.

With multi_objective_aggregation normalize_then_sum, TRL divides each reward by the standard deviation of its group, and
the sum by the standard deviation of the batch. It ignores scale_rewards; `none` does not switch the division off.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "LOS009"
SCALE = "GRPOConfig.scale_rewards"


def check(context: Context) -> Iterator[Finding]:
    rewards = context.value("rewards")
    if context.value("GRPOConfig.multi_objective_aggregation") != "normalize_then_sum" or not context.is_given(SCALE):
        return
    if isinstance(rewards, list) and len(rewards) > 1 and context.value(SCALE) not in ("group", True):
        message = f"scale_rewards {context.value(SCALE)} has no effect with normalize_then_sum"
        because = "TRL divides each reward by its group's standard deviation, and the sum by the batch's"
        fix = "remove scale_rewards, or multi_objective_aggregation: sum_then_normalize"
        yield context.wrong(message, SCALE, because, fix=fix, severity="warning")
