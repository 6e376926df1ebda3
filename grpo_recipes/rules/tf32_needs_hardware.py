"""TF32 needs a GPU that supports it.

`tf32: true` needs an NVIDIA GPU of capability 8.0 (Ampere) or newer. Without one, TrainingArguments raises ValueError,
in every process and after the imports. `tf32: false` and no value work everywhere.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import UNKNOWN_GPUS, gpus_in_use

ID = "PRE004"
TF32 = "GRPOConfig.tf32"


def check(context: Context) -> Iterator[Finding]:
    if context.value(TF32) is not True:
        return
    if context.value("world.device") == "cpu":
        yield _finding(context, "tf32 needs a GPU, but this run is on the CPU")
        return
    gpus = gpus_in_use(context)
    unknown = gpus is None or any(gpu.capability is None for gpu in gpus)
    old = next((gpu for gpu in gpus or () if gpu.capability is not None and gpu.capability < (8, 0)), None)
    if old is not None and old.capability is not None:
        yield _finding(
            context, f"tf32 needs capability 8.0, but {old.name} has {old.capability[0]}.{old.capability[1]}"
        )
    elif unknown:
        message = f"whether the GPUs of {context.stack.origin} support tf32 is unknown"
        yield context.not_checked(message, TF32, UNKNOWN_GPUS)


def _finding(context: Context, message: str) -> Finding:
    return context.wrong(message, TF32, "TrainingArguments raises ValueError")
