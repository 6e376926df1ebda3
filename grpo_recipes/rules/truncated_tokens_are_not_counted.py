"""Truncated completions that are masked do not count in the loss's denominator.

With mask_truncated_completions, dapo, cispo and vespo should divide by the tokens that are trained on. TRL before 1.9.0
also counts the tokens of truncated completions. Measured for the same completions, its gradient was 0.64 times the
gradient of later releases. The other losses agree on all releases.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import loss_of

ID = "LOS003"
APPLIES_TO = {"trl": ">=0.22,<1.9.0"}
MASK = "GRPOConfig.mask_truncated_completions"


def check(context: Context) -> Iterator[Finding]:
    loss = context.value("GRPOConfig.loss_type")
    if context.value(MASK) is True and loss_of(context).divides_by == "step":
        message = f"loss_type {loss} also divides by the tokens of truncated completions"
        because = f"trl {context.stack.version('trl')} counts them, but mask_truncated_completions does not train them"
        yield context.wrong(message, MASK, because, False, fix="mask_truncated_completions: false, or trl==1.9.0")
