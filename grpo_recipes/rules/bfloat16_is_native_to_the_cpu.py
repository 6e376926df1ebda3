"""Training on the CPU uses a data type that the processor multiplies natively.

Without AVX512-BF16, torch converts each bfloat16 number: multiplication runs at 0.4 of the speed of float32 on
processors with AVX-512, and at 0.03 or less on others. The results are correct bfloat16 results, but the run is slow.
Processors with AMX have AVX512-BF16 too. ARM's own instructions were not tested, and the rule says nothing about them.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "TRN009"
BF16, DTYPE = "GRPOConfig.bf16", "model_init_kwargs.dtype"
FOUR_BITS, COMPUTE = "BitsAndBytesConfig.load_in_4bit", "BitsAndBytesConfig.bnb_4bit_compute_dtype"


def check(context: Context) -> Iterator[Finding]:
    if context.stack.avx512_bf16 is not False or context.value("world.device") != "cpu":
        return
    dtype = COMPUTE if context.value(FOUR_BITS) is True else DTYPE
    if context.value(BF16) is True:
        key, instead = BF16, [Patch(("training", "bf16"), False)]
    elif context.value(dtype) == "bfloat16":
        key, instead = dtype, []
    else:
        return
    if context.value(dtype) == "bfloat16":
        section = ("model", "dtype") if dtype == DTYPE else ("quantization", "bnb_4bit_compute_dtype")
        instead.append(Patch(section, "float32"))
    message = "bfloat16 is slower than float32 on this CPU: it has no AVX512-BF16"
    because = "torch converts each number: measured 0.4 of the speed of float32, and 0.03 without AVX-512"
    fix = " and ".join(f"{patch.path[-1]}: {str(patch.value).lower()}" for patch in instead)
    yield context.finding(message, key, because, fix=fix, patch=instead, severity="warning")
