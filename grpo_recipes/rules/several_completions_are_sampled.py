"""Several completions of a row are sampled.

The most likely completion of a row is always the same one: eight of them are eight times the same, and every pass@k is
pass@1.
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
            ID,
            f"{samples} completions of a row would be {samples} times the same",
            "evaluation.samples",
            because=[
                f"greedy is true ({context.origin('evaluation.greedy')}): the most likely completion, and no other"
            ],
            fix="greedy: false",
            patch=[Patch(("evaluation", "greedy"), False)],
        )
