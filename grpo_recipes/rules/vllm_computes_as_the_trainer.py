"""vLLM computes in the trainer's data type.

TRL's colocate mode names no data type, so vLLM takes `auto`: the checkpoint's own type, or bfloat16 or float16 for a
float32 checkpoint. The sampler then differs from the trainer far more than necessary. Measured between a float32
trainer and vLLM on the CPU, the difference was 1e-3 for each token with `auto` and 2e-7 with float32. So vLLM gets the
type of autocast, or without autocast the type of the weights; the plan shows the reason. On GPUs older than Ampere
(capability 8.0) vLLM refuses bfloat16 with ValueError when it starts, after loading the model, while torch would only
be slow.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.machines import UNKNOWN_GPUS, gpus_in_use
from grpo_recipes.rules._shared.settings import Setting

ID = "VLL002"
DTYPE, WEIGHTS = "vllm.dtype", "model_init_kwargs.dtype"
OWNS = (DTYPE,)
READS = ("GRPOConfig.use_vllm",)
AUTOCAST = {"GRPOConfig.bf16": "bfloat16", "GRPOConfig.fp16": "float16"}


def dtype_of(context: Context) -> tuple[str, str]:
    """The trainer's data type, and why."""
    for key, dtype in AUTOCAST.items():
        if context.value(key) is True:
            return dtype, f"the trainer computes in it under {key.partition('.')[2]}"
    return str(context.value(WEIGHTS) or "float32"), "the trainer computes in the data type of its weights"


def decide(context: Context) -> Iterator[Setting]:
    if context.value("GRPOConfig.use_vllm") is True:
        dtype, why = dtype_of(context)
        yield rule_setting(DTYPE, dtype, why)


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True or context.value("GRPOConfig.bf16") is True:
        return  # PRE001 reports autocast
    if context.value(DTYPE) != "bfloat16" or context.value("world.device") != "cuda":
        return
    if gpus_in_use(context) is None:
        text = f"whether the GPUs of {context.stack.origin} support vLLM's bfloat16 is unknown"
        yield context.not_checked(text, WEIGHTS, UNKNOWN_GPUS)
    for gpu in gpus_in_use(context) or ():
        if gpu.capability is not None and gpu.capability < (8, 0):
            text = f"vLLM's bfloat16 needs capability 8.0, but {gpu.name} has {gpu.capability[0]}.{gpu.capability[1]}"
            because = "vLLM raises ValueError when it starts, after loading the model"
            yield context.wrong(
                text, WEIGHTS, because, False, at=("generation", "use_vllm"), fix="use_vllm: false, or dtype: float32"
            )
            return
