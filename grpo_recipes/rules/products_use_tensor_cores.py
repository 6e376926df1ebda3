"""A run that trains in float32 on a GPU with tensor cores does so on purpose.

By default weights are float32 and nothing is cast, which is the same on every machine. torch multiplies float32 without
the tensor cores unless TF32 is allowed, and neither transformers nor TRL allows it; accelerate does, for torch.compile.
bf16 autocast or TF32 is a different experiment, so the rule only prints a note and changes nothing. Write
`training.bf16: false` or `trl.tf32: false` to silence it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.machines import gpus_in_use
from grpo_recipes.stack.gpus import gpu_by_name

ID = "PRE005"
BF16, FP16, TF32 = "GRPOConfig.bf16", "GRPOConfig.fp16", "GRPOConfig.tf32"
DTYPE, COMPUTE = "model_init_kwargs.dtype", "BitsAndBytesConfig.bnb_4bit_compute_dtype"
TENSOR_CORES_FOR_BFLOAT16 = (8, 0)


def check(context: Context) -> Iterator[Finding]:
    if context.value("world.device") != "cuda" or any(context.is_given(key) for key in (BF16, FP16, TF32)):
        return
    gpus = gpus_in_use(context) or ()
    if not gpus or any(gpu.capability is None or gpu.capability < TENSOR_CORES_FOR_BFLOAT16 for gpu in gpus):
        return
    if context.value("GRPOConfig.torch_compile") is True or not _multiplies_float32(context):
        return
    yield context.finding(
        f"this run trains in float32, without the tensor cores of {gpus[0].name}",
        BF16,
        [
            f"with bf16 it uses them{_peaks(gpus[0].name)}",
            "TRL's own default is bf16; a recipe has to request it",
        ],
        fix="bf16: true for autocast, a different experiment; bf16: false to keep float32",
        severity="note",
    )


def _multiplies_float32(context: Context) -> bool:
    if is_quantized(context) and context.value(COMPUTE) == "float32":
        return True
    return not is_quantized(context) and context.value(DTYPE) == "float32"


def _peaks(name: str) -> str:
    """Both figures of the GPU's datasheet, "" if unknown."""
    peaks = table("gpu_peaks")["gpus"].get(gpu_by_name(name).name)
    if peaks is None:
        return ""
    return f", at {peaks['tflops_16']:.3g} instead of {peaks['tflops_32']:.3g} Tflop/s by the datasheet"
