"""Before TRL 0.19, groups cannot be redrawn.

resample_groups needs the rewards before TRL uses them. TRL 0.19 computes them in a separate method; older releases
compute them in the middle of generation, or in the loss.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.groups_can_be_redrawn import RESAMPLE

ID = "TRN010"
APPLIES_TO = {"trl": "<0.19"}


def check(context: Context) -> Iterator[Finding]:
    if context.value(RESAMPLE) != 0:
        message = "resample_groups needs trl 0.19 or newer"
        because = f"trl {context.stack.version('trl')} does not compute rewards in a separate method"
        yield context.wrong(message, RESAMPLE, because, 0, fix="resample_groups: 0, or trl==0.19.1")
