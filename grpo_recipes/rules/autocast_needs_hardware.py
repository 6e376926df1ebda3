"""Autocast needs hardware that computes in the data type.

bf16 needs an Ampere GPU (capability 8.0) or newer, or the CPU; TrainingArguments raises ValueError for older GPUs. fp16
needs a GPU: on the CPU the Trainer accepts it and silently trains in full precision. TrainingArguments refuses both at
once.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import UNKNOWN_GPUS, used_gpus

ID = "PRE001"
BF16, FP16 = "GRPOConfig.bf16", "GRPOConfig.fp16"


def check(context: Context) -> Iterator[Finding]:
    if context.value(BF16) is True and context.value(FP16) is True:
        yield context.finding(
            "bf16 and fp16 exclude each other",
            FP16,
            because=["TrainingArguments raises ValueError for both"],
            patch=[Patch(("training", "fp16"), False)],
        )
    elif context.value(FP16) is True and context.value("world.device") == "cpu":
        yield context.finding(
            "fp16 autocast needs a GPU, but this run is on the CPU",
            FP16,
            because=[context.settings["world.device"].why, "the Trainer would silently train in full precision"],
            patch=[Patch(("training", "fp16"), False)],
        )
    elif context.value(BF16) is True and context.value("world.device") == "cuda":
        yield from _capability(context)


def _capability(context: Context) -> Iterator[Finding]:
    if used_gpus(context) is None:
        message = f"whether the GPUs of {context.stack.origin} compute in bfloat16 is not known"
        yield context.finding(message, BF16, because=[UNKNOWN_GPUS], severity="not-checked")
    for gpu in used_gpus(context) or ():
        if gpu.capability is None:
            yield context.finding(
                f"whether {gpu.name} computes in bfloat16 is not known",
                BF16,
                because=["grpo-run has no datasheet of this GPU"],
                severity="not-checked",
            )
            return
        if gpu.capability < (8, 0):
            yield context.finding(
                f"bf16 autocast needs capability 8.0, but {gpu.name} has {gpu.capability[0]}.{gpu.capability[1]}",
                BF16,
                because=["TrainingArguments raises ValueError for it"],
                patch=[Patch(("training", "bf16"), False)],
            )
            return
