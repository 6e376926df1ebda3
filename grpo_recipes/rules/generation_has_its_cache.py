"""Generation uses its cache of earlier tokens, also under gradient checkpointing.

A checkpointed layer keeps no cache, but transformers 4.48 and 4.55, among others, still feed it only the newest token.
It then draws each token as if the prompt and the completion so far did not exist, without an error: with trl 0.21 and
transformers 4.55.4 every completion differed. Since 0.22, TRL switches checkpointing off for generation. The shim
`generation_cache` does so on older releases.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM015"
APPLIES_TO = {"trl": "<0.22"}
OWNS = ("shims.generation_cache",)
READS = ("GRPOConfig.gradient_checkpointing",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("GRPOConfig.gradient_checkpointing") is True:
        yield rule_setting(OWNS[0], True, "this TRL generates with checkpointing on")
