"""Every release reads the same prompts in the same order, in whole optimizer steps, and counts only these.

Since 0.16 TRL reads the rows in one order, from a sampler that knows optimizer steps, and since 0.20 it counts them
right. trl 0.14 leaves the order to transformers, which shuffles differently from the second epoch on. 0.14 and 0.15
train the rows left at the end of an epoch as a step with fewer prompts. 0.16 to 0.19 skip them but count them, so the
learning rate follows a schedule that is too long. The shim `prompt_order` gives all of them the newest release's order.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM011"
APPLIES_TO = {"trl": "<0.20"}
OWNS = ("shims.prompt_order",)


def decide(context: Context) -> Iterator[Setting]:
    yield rule_setting(OWNS[0], True, "this TRL does not read prompts in whole optimizer steps")
