"""Several completions of a row are sampled.

Greedy decoding always gives a row the same completion: eight samples are eight copies, and every pass@k equals pass@1.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "EVL002"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation") or context.value("evaluation.greedy") is not True:
        return
    samples = context.whole("evaluation.samples")
    if samples > 1:
        yield context.wrong(
            f"greedy decoding makes all {samples} completions of a row the same",
            "evaluation.samples",
            f"greedy is true ({context.origin('evaluation.greedy')}), so each token is the most likely one",
            False,
            at=("evaluation", "greedy"),
        )
