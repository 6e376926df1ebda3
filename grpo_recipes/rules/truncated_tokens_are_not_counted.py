"""Completions that are left out of the loss are left out of the count that it is divided by.

With mask_truncated_completions, dapo, cispo and vespo are to be divided by the tokens that are trained on. TRL before
1.9.0 divided by those of the truncated completions too: measured, the gradient was 0.64 of what later releases give
for the same completions. The other losses agree on all releases.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.loss_counts_the_tokens_of_its_step import COUNTING

ID = "LOS003"
APPLIES_TO = {"trl": ">=0.22,<1.9.0"}
MASK = "GRPOConfig.mask_truncated_completions"


def check(context: Context) -> Iterator[Finding]:
    loss = context.value("GRPOConfig.loss_type")
    if context.value(MASK) is True and loss in COUNTING:
        yield context.finding(
            ID,
            f"loss_type {loss} is divided by the tokens of truncated completions too",
            MASK,
            because=[
                f"trl {context.stack.version('trl')} counts them, and mask_truncated_completions does not train them"
            ],
            fix="mask_truncated_completions: false, or trl==1.9.0",
            patch=[Patch(("grpo", "mask_truncated_completions"), False)],
        )
