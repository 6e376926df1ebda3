"""Whether a recipe would fit into its GPUs with other values, for rules that choose them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from grpo_recipes.facts.released.requirements import cuda_of, driver_for, newest_torch_for
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.machines import gpu_bytes
from grpo_recipes.stack.stack import Stack

FILLED = 0.85
"""The share of a GPU that `auto` fills; the estimate has not been compared with every GPU."""
IN_AN_UPDATE = ("score", "update")
DECIDED = (
    "distributed.strategy",
    "world.device",
    "world.num_processes",
    "GRPOConfig.gradient_accumulation_steps",
    "GRPOConfig.gradient_checkpointing",
    "GRPOConfig.per_device_train_batch_size",
    "GRPOConfig.steps_per_generation",
    "GRPOConfig.use_vllm",
    "GRPOConfig.vllm_gpu_memory_utilization",
    "GRPOConfig.vllm_max_model_length",
    "GRPOConfig.vllm_mode",
    "GRPOConfig.vllm_tensor_parallel_size",
    "evaluation.generated_by",
)
"""Settings that memory depends on and that rules decide."""


def share_needed(
    context: Context, values: Mapping[str, object], reads: Collection[str], phases: Collection[str] = ()
) -> float | None:
    """The share of a GPU that a recipe would need with these settings; None if unknown.

    reads: the keys that the calling rule waits for; for other decided keys the estimate uses the recipe's values.
    phases: those that count; empty means all.
    """
    if (memory := gpu_bytes(context)) is None:
        return None
    from grpo_recipes.rules._shared.memory_needs import memory_needs  # a recipe for a CPU does not pay for it

    context = context.as_written(*(key for key in DECIDED if key not in reads))
    settings = context.settings
    tried = settings.having(settings[key]._replace(value=value) for key, value in values.items())
    try:
        needs = memory_needs(context._replace(settings=tried), decides=True)
    except NotJudged:
        return None
    all_phases = [] if isinstance(needs, str) else needs.estimate().phases
    sizes = [phase.total() for phase in all_phases if not phases or phase.name in phases]
    return max(sizes) / memory if sizes else None


def answers_fit(context: Context, values: Mapping[str, object], reads: Collection[str]) -> bool:
    """Whether an evaluation fits comfortably, together with the weights that ZeRO-3 gathers for it.

    Without ZeRO-3 it needs less than an update does. values, reads: as in share_needed.
    """
    if context.value("distributed.strategy") != "zero3":
        return True
    from grpo_recipes.memory.estimate import TIGHT  # as above

    share = share_needed(context, values, reads, ("evaluation",))
    return share is None or share <= TIGHT


DRIVER, TRITON = "STK016", "STK017"
"""Ids of the rules that report these problems for a recipe."""


class GpuProblem(NamedTuple):
    """A problem, why it matters, and how to fix it."""

    message: str
    because: tuple[str, ...]
    fix: str


def torch_and_driver(stack: Stack) -> GpuProblem | None:
    """Why torch sees none of the stack's GPUs, None if it does or if unknown."""
    cuda = cuda_of(stack)
    if not stack.gpus or cuda is None:
        return None
    release = str(stack.version("torch"))
    torch = f"torch {release}"
    gpus = f"{len(stack.gpus)} GPU{'' if len(stack.gpus) == 1 else 's'}"
    if cuda == "":
        return GpuProblem(
            f"{torch} is built without CUDA, but {stack.origin} has {gpus}",
            ("torch sees no GPU: 'Torch not compiled with CUDA enabled'",),
            f"pip install --force-reinstall torch=={release.partition('+')[0]}, from an index with builds for CUDA;"
            " or launch.gpus_per_node: 0, which trains on the CPU",
        )
    needed = driver_for(cuda)
    if stack.driver is None or needed is None or _first(stack.driver) >= needed:
        return None
    window = newest_torch_for(stack.driver)
    other = f"; or 'torch{window}', PyPI's newest for this driver" if window else ""
    return GpuProblem(
        f"{torch} is built for CUDA {cuda}, which needs driver {needed} or newer, not {stack.driver}",
        ("torch then sees no GPU: 'The NVIDIA driver on your system is too old'",),
        f"install driver {needed} or newer{other}",
    )


def triton_compiler(stack: Stack) -> GpuProblem | None:
    """What Triton lacks to compile for the stack's GPUs, None if nothing is missing or unknown."""
    if not stack.gpus:
        return None
    lacking = [
        name
        for name, there in (("a C compiler", stack.c_compiler), ("Python.h", stack.python_headers))
        if there is False
    ]
    if not lacking:
        return None
    return GpuProblem(
        f"Triton needs {' and '.join(lacking)}, which {'is' if len(lacking) == 1 else 'are'} missing",
        ("Triton compiles a C module against Python.h on each machine when it first starts a kernel",),
        "apt-get install gcc libc6-dev python3-dev, or the matching packages of other distributions",
    )


def _first(version: str) -> int:
    return int(version.partition(".")[0])
