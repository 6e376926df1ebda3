"""Completions are generated with the cache of the tokens before, also under gradient checkpointing.

A layer that checkpoints keeps no cache, and transformers 4.48 and 4.55, among others, feed it the newest token alone
all the same. Each token is then drawn as if prompt and completion before it were not there, without an error: with trl
0.21 and transformers 4.55.4 every completion was another. TRL switches checkpointing off for generation since 0.22. The
shim `generation_cache` does so on older releases.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM015"
APPLIES_TO = {"trl": "<0.22"}
OWNS = ("shims.generation_cache",)
READS = ("GRPOConfig.gradient_checkpointing",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("GRPOConfig.gradient_checkpointing") is True:
        yield decided(OWNS[0], True, ID, "this TRL generates with checkpointing on", context.settings)
