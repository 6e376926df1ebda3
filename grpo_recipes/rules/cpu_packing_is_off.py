"""4-bit weights on the CPU are never repacked for inference.

On processors with AVX512-BF16, bitsandbytes permanently repacks 4-bit weights in the first forward pass in eval mode.
Later training passes then use a kernel without a backward pass: with biases they raise; without biases they compute
wrong gradients and only warn. The shim `bnb_cpu_packing` switches the repacking off. It can be removed when
bitsandbytes keeps both forms.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM001"
OWNS = ("shims.bnb_cpu_packing",)
READS = ("world.device",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("BitsAndBytesConfig.load_in_4bit") is True and context.value("world.device") == "cpu":
        yield rule_setting(OWNS[0], True, "evaluation would repack the 4-bit weights")
