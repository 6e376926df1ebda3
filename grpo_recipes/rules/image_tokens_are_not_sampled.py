"""The policy does not sample the token of an image.

In a prompt, this token represents a part of an image. A completion that contains it makes the loss fail, because there
are more such tokens than image parts. Untrained models soon sample it, trained ones rarely. Since trl 1.16, TRL
suppresses it in generation, unless `suppress_tokens` of `generation_kwargs` replace its own. The shim `image_tokens`
suppresses it on older releases, and together with other tokens.
"""

from collections.abc import Iterator

from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "SHM029"
OWNS = ("shims.image_tokens",)


def decide(context: Context) -> Iterator[Setting]:
    if not image_columns(context):
        return
    trl = context.stack.version("trl")
    if trl is not None and is_within(trl, "<1.16.0"):
        yield rule_setting(OWNS[0], True, "this TRL lets the policy sample the token of an image")
    elif "suppress_tokens" in context.mapping("generation.generation_kwargs"):
        yield rule_setting(OWNS[0], True, "suppress_tokens replaces TRL's own list, which has the token of an image")
