"""The machines of a run, for rules."""

from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.vllms_gpu import starts_server
from grpo_recipes.stack.gpus import sizes_in_gb
from grpo_recipes.stack.stack import Gpu

ENGINE, NODES = "launch.engine", "launch.num_nodes"


def is_slurm(context: Context) -> bool:
    """Whether Slurm assigns the machines."""
    setting = context.settings.get(ENGINE)
    return setting is not None and not setting.refused and setting.value == "slurm"


def is_of_a_cluster(context: Context) -> bool:
    """Whether the machines that train are not this one, as Slurm's."""
    setting = context.settings.get(ENGINE)
    kind = None if setting is None or setting.refused else ENGINES.get(str(setting.value))
    return kind is not None and kind.trains_elsewhere


def machines(context: Context) -> int:
    """The number of machines of the run, 1 if the number was refused."""
    setting = context.settings.get(NODES)
    return setting.value if setting is not None and not setting.refused and isinstance(setting.value, int) else 1


def has_server_node(context: Context) -> bool:
    """Whether the run's vLLM server has its own machine: the last of several."""
    return machines(context) > 1 and starts_server(context)


# The GPUs of a machine that a run uses, and their memory, for rules.


GIB = 2**30
UNKNOWN_GPUS = "the target names no GPU of known capability; write gpus=4xH100-80GB in --target"


def used_gpus(context: Context) -> tuple[Gpu, ...] | None:
    """The GPUs of each machine that are used; None if unknown.

    If a machine has more, these are the ones with the highest capability, then the most memory: CUDA numbers the
    fastest first, and a process takes the first. An unknown GPU may be any of them.
    """
    gpus, used = context.stack.gpus, context.value("world.all_gpus")
    if gpus is None or not isinstance(used, int) or used >= len(gpus):
        return gpus
    return tuple(
        sorted(gpus, key=lambda gpu: (gpu.capability is None, gpu.capability or (), gpu.memory_gib or 0))[-used:]
    )


def smallest_gpu(context: Context) -> float | None:
    """GiB of the smallest GPU that is used, None if any is unknown."""
    known = [gpu.memory_gib for gpu in used_gpus(context) or ()]
    sizes = [size for size in known if size is not None]
    return min(sizes) if sizes and len(sizes) == len(known) else None


def gpu_bytes(context: Context) -> int | None:
    """Bytes of the smallest GPU; None if any is unknown, and for a run on the CPU."""
    gib = None if context.value("world.device") == "cpu" else smallest_gpu(context)
    return None if gib is None else round(gib * GIB)


def assumed_sizes(context: Context) -> tuple[str, ...]:
    """The assumption for GPUs whose name does not say which of several sizes they have."""
    names = {gpu.name: sizes_in_gb(gpu.name) for gpu in used_gpus(context) or ()}
    return tuple(
        f"{name} has {sizes[0]} GB, not {' or '.join(map(str, sizes[1:]))}; otherwise write gpus=1x{name}:{sizes[-1]}GB"
        for name, sizes in names.items()
        if sizes
    )
