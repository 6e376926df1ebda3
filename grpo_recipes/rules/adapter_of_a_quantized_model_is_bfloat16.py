"""The adapter of a quantized model is trained in bfloat16.

Since 0.26, TRL casts the adapter of a quantized model to bfloat16, as the QLoRA paper does; older releases leave it in
float32. The dtype decides which updates survive rounding, so it is part of the experiment. The shim `adapter_dtype`
casts the adapter on older releases too.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM012"
APPLIES_TO = {"trl": "<0.26"}
OWNS = ("shims.adapter_dtype",)
READS = ("distributed.strategy",)


def decide(context: Context) -> Iterator[Setting]:
    if is_quantized(context) and context.has_section("lora") and context.value("distributed.strategy") != "fsdp2":
        yield rule_setting(OWNS[0], True, "this TRL leaves the adapter in float32")
