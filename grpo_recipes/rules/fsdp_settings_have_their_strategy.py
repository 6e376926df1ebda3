"""Settings under distributed.fsdp have an effect only with the strategy fsdp2.

accelerate reads them only for FSDP, and silently ignores them with every other strategy.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "FSD002"
KEY, STRATEGY = "distributed.fsdp", "distributed.strategy"


def check(context: Context) -> Iterator[Finding]:
    strategy = context.text(STRATEGY)
    if context.settings.under(KEY) and strategy != "fsdp2":
        yield context.finding(
            f"fsdp needs the strategy fsdp2, but the strategy is {strategy}",
            KEY,
            because=["accelerate silently ignores it otherwise"],
            fix="strategy: fsdp2, or remove fsdp",
            patch=[Patch(("distributed", "fsdp"), remove=True)],
        )
