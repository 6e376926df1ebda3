"""The number of processes and the device are fixed before anything else is derived from them.

`launch.gpus_per_node` says how many GPUs to use, `launch.num_processes` how many training processes. With both on
auto there is one process per GPU, or one process on a machine without. Where the GPUs of a declared target are not
said, one GPU is planned for. A vLLM server of the run takes its GPUs first: the last ones, `vllm_server.gpus` of them.
"""

from collections.abc import Iterator

from grpo_recipes.rules.context import Context, decided
from grpo_recipes.rules.own_server import GPUS, starts_server
from grpo_recipes.settings import Setting

ID = "WLD001"
OWNS = ("world.device", "world.num_processes", "world.gpus", "world.server_gpus", "world.all_gpus")
ORDER = 0


def decide(context: Context) -> Iterator[Setting]:
    all_gpus, gpus_why = _gpus(context)
    gpus, server_gpus = _shared(context, all_gpus)
    if server_gpus:
        gpus_why += f", the vLLM server takes {server_gpus}"
    asked = context.value("launch.num_processes")
    device = "cuda" if gpus else "cpu"
    yield decided("world.gpus", gpus, ID, gpus_why, context.settings)
    yield decided("world.server_gpus", server_gpus, ID, gpus_why, context.settings)
    yield decided("world.all_gpus", all_gpus, ID, gpus_why, context.settings)
    yield decided("world.device", device, ID, gpus_why, context.settings)
    if isinstance(asked, int):
        yield decided("world.num_processes", asked, ID, "launch.num_processes says so", context.settings)
    else:
        why = f"one process per GPU, {gpus_why}" if gpus else f"one process, {gpus_why}"
        yield decided("world.num_processes", max(gpus, 1), ID, why, context.settings)


def _shared(context: Context, gpus: int) -> tuple[int, int]:
    """GPUs of the trainer and of its vLLM server; the trainer plans for one also where none is left (SRV001)."""
    wanted = context.settings.get(GPUS)
    if not gpus or not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return gpus, 0
    return max(gpus - wanted.value, 1), wanted.value


def _gpus(context: Context) -> tuple[int, str]:
    asked = context.value("launch.gpus_per_node")
    if isinstance(asked, int):
        return asked, f"launch.gpus_per_node is {asked}"
    if context.stack.gpus is None:
        return _assumed(context)
    count = len(context.stack.gpus)
    return count, f"{context.stack.origin} has {count} GPU{'' if count == 1 else 's'}"


def _assumed(context: Context) -> tuple[int, str]:
    """One GPU for the trainer, and those of its server."""
    why = f"the GPUs of {context.stack.origin} are not known, one is assumed"
    wanted = context.settings.get(GPUS)
    if not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return 1, why
    return 1 + wanted.value, f"{why} to train on"
