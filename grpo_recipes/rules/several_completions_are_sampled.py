"""Several completions of a row are sampled.

The most likely completion of a row is always the same: eight of them are eight copies, and every pass@k equals pass@1.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "EVL002"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation") or context.value("evaluation.greedy") is not True:
        return
    samples = context.whole("evaluation.samples")
    if samples > 1:
        yield context.finding(
            f"{samples} completions of a row would all be the same",
            "evaluation.samples",
            because=[
                f"greedy is true ({context.origin('evaluation.greedy')}), which always takes the most likely completion"
            ],
            patch=[Patch(("evaluation", "greedy"), False)],
        )
