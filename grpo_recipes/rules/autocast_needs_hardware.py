"""Autocast needs hardware that computes in the data type.

bf16 needs an Ampere GPU (capability 8.0) or newer, or the CPU; TrainingArguments raises ValueError for older GPUs. fp16
needs a GPU: on the CPU the Trainer accepts it and silently trains in full precision. TrainingArguments refuses both at
once.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import UNKNOWN_GPUS, gpus_in_use

ID = "PRE001"
BF16, FP16 = "GRPOConfig.bf16", "GRPOConfig.fp16"


def check(context: Context) -> Iterator[Finding]:
    if context.value(BF16) is True and context.value(FP16) is True:
        why = "TrainingArguments raises ValueError for both"
        yield context.wrong("bf16 and fp16 exclude each other", FP16, why, False)
    elif context.value(FP16) is True and context.value("world.device") == "cpu":
        because = [context.settings["world.device"].why, "the Trainer would silently train in full precision"]
        yield context.wrong("fp16 autocast needs a GPU, but this run is on the CPU", FP16, because, False)
    elif context.value(BF16) is True and context.value("world.device") == "cuda":
        yield from _capability(context)


def _capability(context: Context) -> Iterator[Finding]:
    if gpus_in_use(context) is None:
        message = f"whether the GPUs of {context.stack.origin} compute in bfloat16 is unknown"
        yield context.not_checked(message, BF16, UNKNOWN_GPUS)
    for gpu in gpus_in_use(context) or ():
        if gpu.capability is None:
            because = "grpo-run has no datasheet of this GPU"
            yield context.not_checked(f"whether {gpu.name} computes in bfloat16 is unknown", BF16, because)
            return
        if gpu.capability < (8, 0):
            message = f"bf16 autocast needs capability 8.0, but {gpu.name} has {gpu.capability[0]}.{gpu.capability[1]}"
            yield context.wrong(message, BF16, "TrainingArguments raises ValueError for it", False)
            return
