"""A completion ends at every end token that the model declares.

Older releases of TRL end a completion only at the tokenizer's end token. Many models declare a second one in their
generation_config.json, such as an end of text in addition to an end of turn. After such a token, the model continues to
write, or padding follows and is trained on as if the policy had written it. With the shim `declared_ends`, generation,
masks, lengths and the share of truncated completions end at each of them, as in the newest TRL. It does nothing for a
model with one end token.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM008"
APPLIES_TO = {"trl": "<1.14.2"}
OWNS = ("shims.declared_ends",)
READS = ("shims.completion_ends",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("shims.completion_ends") is not True:  # which ends completions at these tokens too
        yield rule_setting(OWNS[0], True, "this TRL masks only after the tokenizer's end token")
