"""What is not quantized of a quantized model keeps the dtype that the recipe says.

TRL 0.22 to 0.25 prepare a quantized model for its adapter: they cast what is not quantized to float32 (0.25 the norms
alone), under bf16 embeddings to bfloat16, and switch the arguments' gradient checkpointing off after enabling it on the
model. No other release does. The shim `no_kbit_preparation` puts the adapter on the model as it was loaded.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.loaded_model import quantized
from grpo_recipes.settings import Setting

ID = "SHM013"
APPLIES_TO = {"trl": ">=0.22,<0.26"}
OWNS = ("shims.no_kbit_preparation",)


def decide(context: Context) -> Iterator[Setting]:
    if quantized(context) and context.has_section("lora"):
        yield decided(OWNS[0], True, ID, "this TRL casts weights that the recipe does not", context.settings)
