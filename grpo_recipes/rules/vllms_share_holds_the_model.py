"""vLLM's share of each GPU holds its copy of the model, in addition to the trained model.

In colocate mode vLLM keeps its own copy of the weights, in the data type that it computes in (VLL002), divided by
vllm_tensor_parallel_size. If vllm_gpu_memory_utilization of a GPU is less, vLLM ends with "No available memory for the
cache blocks", after loading the model. The share must be free, too. If every process holds all of the trainer's
weights, they are on the GPU when vLLM starts. Under ZeRO-3, TRL gathers the whole model on each GPU before each
generation, to merge an adapter. TRL 0.14 and 0.15 run vLLM on one GPU that the trainer does not use, unless
`trl.vllm_device` names a GPU that it uses. These are minimums; gradients, optimizer states and the cache need more.
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.machines import GIB, smallest_gpu
from grpo_recipes.rules._shared.vllms_gpu import has_a_gpu_of_its_own
from grpo_recipes.rules.vllm_computes_as_the_trainer import dtype_of
from grpo_recipes.user_files.model_config import parameter_count

ID = "VLL001"
STRATEGY = "distributed.strategy"
SHARE = "GRPOConfig.vllm_gpu_memory_utilization"
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
MOST = 0.9
"""The largest share of a GPU that the rules choose for vLLM."""


class Sizes(NamedTuple):
    """GiB of a GPU, of vLLM's share of it, of its copy of the model, and of the trainer's weights next to it."""

    memory: float
    share: float
    copy: float
    trainer: float
    parameters: int
    width: int


def sizes(context: Context) -> Sizes | None:
    """None if the model, the GPUs or the share is unknown. A share that is not decided yet counts as MOST."""
    share, memory, config = context.value(SHARE), smallest_gpu(context), model_config(context)
    if config is None or "quantization_config" in config:
        return None  # the weights of a quantized checkpoint are smaller
    parameters = parameter_count(config)
    share = MOST if share == "auto" else share
    if memory is None or parameters is None or not isinstance(share, int | float):
        return None
    size, width = context.value("GRPOConfig.vllm_tensor_parallel_size"), BYTES.get(dtype_of(context)[0], 2)
    copy = width * parameters / (size if isinstance(size, int) else 1) / GIB
    return Sizes(memory, share * memory, copy, _trainers_weights(context, parameters), parameters, width)


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True or context.value("GRPOConfig.vllm_mode") != "colocate":
        return
    budget = sizes(context)
    if budget is None:
        return
    memory, copy, own = budget.memory, budget.copy, budget.trainer
    if copy > budget.share:
        least = round(ceil(100 * copy / memory) / 100 + 0.05, 2)
        parts = f"{budget.parameters / 1e9:.1f}e9 parameters in {budget.width} bytes"
        why = f"{copy:.1f} GiB = {parts} / vllm_tensor_parallel_size"
        what = f"vLLM's share of {budget.share:.1f} GiB is too small for the model's {copy:.1f} GiB"
        yield _finding(context, what, why, least if own + least * memory < memory else None)
    elif own + budget.share > memory:
        most = int(100 * (memory - own) / memory) / 100
        why = f"{own:.1f} GiB of the trainer's weights + {budget.share:.1f} of the GPU's {memory:g} GiB"
        if context.value(STRATEGY) == "zero3":
            why += "; to merge an adapter TRL gathers all of them on each GPU"
        what = f"the trainer's {own:.1f} GiB leave too little for vLLM's share of {budget.share:.1f} GiB"
        yield _finding(context, what, why, most if most * memory > copy else None)


def _trainers_weights(context: Context, parameters: int) -> float:
    """GiB of weights on each GPU in addition to vLLM; 0 if only parts of them are there at any time, or none."""
    if has_a_gpu_of_its_own(context):
        return 0.0
    width, strategy = BYTES.get(str(context.value("model_init_kwargs.dtype") or "float32"), 0), context.value(STRATEGY)
    is_whole = strategy in ("single", "ddp") or (strategy == "zero3" and context.has_section("lora"))
    return width * parameters / GIB if is_whole else 0.0


def _finding(context: Context, what: str, why: str, better: float | None) -> Finding:
    name = "vllm_gpu_memory_utilization"
    patch = Patch(("generation", name), better) if better is not None else Patch(("generation", "use_vllm"), False)
    fix = f"{name}: {better:g}" if better is not None else "use_vllm: false, a larger GPU, or vllm_tensor_parallel_size"
    because = [why, "the run fails when vLLM starts, or when it first gets the policy"]
    return context.finding(what, SHARE, because, fix=fix, patch=[patch])
