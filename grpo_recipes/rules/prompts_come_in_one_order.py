"""Prompts are read in the same order by every release, in whole optimizer steps, and no others are counted.

TRL has read the rows in one order since 0.16, from a sampler that knows of optimizer steps, and counts them right since
0.20. trl 0.14 leaves the order to transformers, which from the second epoch on shuffles otherwise; 0.14 and 0.15 train
the rows that are left at the end of an epoch as a step with fewer prompts; 0.16 to 0.19 leave them out and count them,
so that the learning rate follows a schedule that is too long. The shim `prompt_order` gives them the newest release's.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM011"
APPLIES_TO = {"trl": "<0.20"}
OWNS = ("shims.prompt_order",)


def decide(context: Context) -> Iterator[Setting]:
    yield decided(OWNS[0], True, ID, "this TRL does not keep to whole optimizer steps", context.settings)
