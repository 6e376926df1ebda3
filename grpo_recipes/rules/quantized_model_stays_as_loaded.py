"""Weights of a quantized model that are not quantized keep the recipe's dtype.

TRL 0.22 to 0.25 prepare a quantized model for its adapter: they cast the weights that are not quantized to float32
(0.25 only the norms), under bf16 embeddings to bfloat16, and switch the arguments' gradient checkpointing off after
enabling it on the model. No other release does. The shim `no_kbit_preparation` puts the adapter on the model as it was
loaded.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM013"
APPLIES_TO = {"trl": ">=0.22,<0.26"}
OWNS = ("shims.no_kbit_preparation",)


def decide(context: Context) -> Iterator[Setting]:
    if is_quantized(context) and context.has_section("lora"):
        yield rule_setting(OWNS[0], True, "this TRL casts weights that the recipe leaves alone")
