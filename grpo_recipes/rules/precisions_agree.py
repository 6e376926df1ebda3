"""The precisions of weights, autocast, optimizer and 4-bit layers fit together, and take effect as written.

bfloat16 weights without a float32 copy lose every step smaller than 1/512 of a weight: measured with AdamW and a
learning rate of 1e-6, 2 % of the weights moved in 100 steps. In float16 without loss scaling the optimizer's own
numbers leave the range. Float32 weights with bf16 autocast cost memory and lose nothing; ZeRO keeps a float32 copy by
itself; PEFT keeps an adapter in float32 on half-precision weights, so it is not affected.

Loss scaling (`fp16`) cannot be undone on float16 gradients. DeepSpeed's fp16 casts all weights to float16, and its bf16
to bfloat16 (see PRE003 for float32 weights). Without either, ZeRO-3 loads every model in float32. Autocast decides what
4-bit layers compute in, whatever bnb_4bit_compute_dtype says. FSDP2 shards 4-bit weights that are stored in the dtype
of the other weights, and keeps others whole in each process; the results are the same.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized

ID = "PRE002"
DTYPE, RATE = "model_init_kwargs.dtype", "GRPOConfig.learning_rate"
COMPUTE = "BitsAndBytesConfig.bnb_4bit_compute_dtype"
STORAGE = "BitsAndBytesConfig.bnb_4bit_quant_storage"
# AdamW's step is about the learning rate, and weights are about 0.02: above this most steps survive bfloat16.
SURVIVES_BFLOAT16 = 1e-4


def check(context: Context) -> Iterator[Finding]:
    strategy, autocast = context.text("distributed.strategy"), _autocast(context)
    if strategy.startswith("zero"):
        yield from _under_deepspeed(context, strategy, autocast)
    elif strategy != "fsdp2" and not context.has_section("lora"):
        yield from _own_weights(context, autocast)
    if context.value("BitsAndBytesConfig.load_in_4bit") is True:
        yield from _check_packing(context, strategy, autocast)


def _autocast(context: Context) -> str | None:
    """The dtype of autocast; None without it. PRE001 reports both at once."""
    if context.value("GRPOConfig.bf16") is True:
        return "bfloat16"
    return "float16" if context.value("GRPOConfig.fp16") is True else None


def _finding(context: Context, key: str, message: str, because: str, fix: tuple[str, str, object]) -> Finding:
    """An error whose fix is one value of a section."""
    section, name, value = fix
    return context.wrong(message, key, because, value, at=(section, name))


def _under_deepspeed(context: Context, strategy: str, autocast: str | None) -> Iterator[Finding]:
    weights = context.text(DTYPE)
    if autocast is None:
        if strategy == "zero3" and weights != "float32" and not is_quantized(context):
            fix = ("training", "bf16", True) if weights == "bfloat16" else ("model", "dtype", "float32")
            message = f"zero3 without autocast loads {weights} weights as float32"
            yield _finding(context, DTYPE, message, "DeepSpeed creates every parameter in its own precision", fix)
    elif weights != autocast and context.value("deepspeed.torch_autocast") is None:
        message = f"DeepSpeed turns {weights} weights into {autocast}"
        because = f"its own {'bf16' if autocast == 'bfloat16' else 'fp16'} is not autocast, and casts every parameter"
        finding = _finding(context, DTYPE, message, because, ("model", "dtype", autocast))
        unknown = weights == "float32" and autocast == "bfloat16" and context.stack.version("deepspeed") is None
        if not unknown:
            yield finding
        else:
            message = "whether this DeepSpeed keeps float32 weights under bf16 is unknown"
            because = f"the version of deepspeed is unknown for {context.stack.origin}"
            yield context.not_checked(message, DTYPE, because)


def _own_weights(context: Context, autocast: str | None) -> Iterator[Finding]:
    weights, rate = context.text(DTYPE), context.value(RATE)
    if weights == "float16" and autocast == "float16":
        message = "fp16 cannot scale the gradients of float16 weights"
        because = 'torch raises ValueError at the first step: "Attempting to unscale FP16 gradients."'
        yield _finding(context, DTYPE, message, because, ("model", "dtype", "float32"))
    elif weights == "float16":
        message = "float16 weights are trained without a float32 copy"
        because = "the optimizer's numbers leave the range of float16, and steps are wrong or not finite"
        yield _finding(context, DTYPE, message, because, ("model", "dtype", "float32"))
    elif weights == "bfloat16" and isinstance(rate, float | int) and rate < SURVIVES_BFLOAT16:
        message = f"bfloat16 weights lose most steps at learning rate {rate:g}"
        why = "a step smaller than 1/512 of a weight is rounded away, and nothing keeps a float32 copy"
        yield context.wrong(message, DTYPE, why, "float32", severity="warning")


def _check_packing(context: Context, strategy: str, autocast: str | None) -> Iterator[Finding]:
    compute = context.value(COMPUTE)
    if autocast is not None and context.is_given(COMPUTE) and compute != autocast:
        message = f"{autocast} autocast overrides bnb_4bit_compute_dtype {compute}"
        because = "autocast also applies to the 4-bit product, so both values give the same numbers"
        yield context.wrong(message, COMPUTE, because, autocast, severity="warning")
    if strategy == "fsdp2" and context.value(STORAGE) != context.text(DTYPE):
        stored = context.value(STORAGE) or "uint8"
        is_float = "float" in str(stored)
        yield context.wrong(
            f"fsdp2 does not shard 4-bit weights stored as {stored}: each GPU holds all of them",
            STORAGE if context.is_given(STORAGE) else "quantization",
            "it shards weights stored in the dtype of the other weights; the results are the same",
            context.text(DTYPE),
            at=("quantization", "bnb_4bit_quant_storage"),
            severity="warning",
            fix=f"bnb_4bit_quant_storage: {context.text(DTYPE)}" + (f", or model.dtype: {stored}" if is_float else ""),
        )
