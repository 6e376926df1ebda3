"""The training process is written for the TRL it meets.

What runs in the training processes was written for and run with trl 1.16.0. Older releases take other arguments and
mean other things by the same ones, so a plan for them is refused. `plan` and `validate` still check the recipe against
what those releases accept.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding
from grpo_recipes.rules.context import Context

ID = "STK014"
APPLIES_TO = {"trl": "<1.16.0"}


def check(context: Context) -> Iterator[Finding]:
    yield context.finding(
        ID,
        f"this grpo-run does not train with trl {context.stack.version('trl')}",
        "recipe",
        because=["its training process was written for trl 1.16.0 and run with no older one"],
        fix="trl==1.16.0 with transformers==5.23.0 and peft==0.21.2",
    )
