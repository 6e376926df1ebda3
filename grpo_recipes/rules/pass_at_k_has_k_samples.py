"""pass@k has at least k completions per row.

The probability that one of k completions passes is estimated from all sets of k among the `samples` of a row, so a row
needs at least k samples. A number that is listed twice gives the same result twice.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "EVL003"
PASS_AT = "evaluation.pass_at"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation"):
        return
    numbers, samples = context.value(PASS_AT), context.whole("evaluation.samples")
    if not isinstance(numbers, list) or not numbers:
        return
    once = sorted(set(numbers))
    if max(once) > samples:
        patch = [Patch(("evaluation", "samples"), max(once)), Patch(("evaluation", "greedy"), False)]
        message = f"pass@{max(once)} needs {max(once)} completions per row, but samples is {samples}"
        because = f"samples: {samples} comes from {context.origin('evaluation.samples')}"
        yield context.finding(message, PASS_AT, because, fix=f"samples: {max(once)}, with greedy: false", patch=patch)
    if len(once) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        because = "each number has one entry in metrics.jsonl"
        yield context.wrong(f"pass_at lists {twice} twice", PASS_AT, because, once)
