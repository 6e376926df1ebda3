"""A completion ends at every end token that the model declares.

Older releases of TRL take the tokenizer's end token alone for the end of a completion. Many models declare a second
one in their generation_config.json, such as an end of text beside an end of turn: after it the model writes on, or
padding follows that is trained as if the policy had written it. The shim `declared_ends` lets generation, masks,
lengths and the share of truncated completions end at each of them, as the newest TRL does. It does nothing for a model
with one.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM008"
APPLIES_TO = {"trl": "<1.14.2"}
OWNS = ("shims.declared_ends",)
READS = ("shims.completion_ends",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("shims.completion_ends") is not True:  # which ends completions at these tokens too
        yield decided(OWNS[0], True, ID, "this TRL masks after the tokenizer's end token alone", context.settings)
