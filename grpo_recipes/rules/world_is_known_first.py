"""The number of processes and the device are fixed before anything else is derived from them.

`launch.gpus_per_node` says how many GPUs to use, `launch.num_processes` how many training processes. With both on
auto there is one process per GPU, or one process on a machine without. Where the GPUs of a declared target are not
said, one GPU is planned for.
"""

from collections.abc import Iterator

from grpo_recipes.rules.context import Context, decided
from grpo_recipes.settings import Setting

ID = "WLD001"
OWNS = ("world.device", "world.num_processes", "world.gpus")
ORDER = 0


def decide(context: Context) -> Iterator[Setting]:
    gpus, gpus_why = _gpus(context)
    asked = context.value("launch.num_processes")
    device = "cuda" if gpus else "cpu"
    yield decided("world.gpus", gpus, ID, gpus_why, context.settings)
    yield decided("world.device", device, ID, gpus_why, context.settings)
    if isinstance(asked, int):
        yield decided("world.num_processes", asked, ID, "launch.num_processes says so", context.settings)
    else:
        why = f"one process per GPU, {gpus_why}" if gpus else f"one process, {gpus_why}"
        yield decided("world.num_processes", max(gpus, 1), ID, why, context.settings)


def _gpus(context: Context) -> tuple[int, str]:
    asked = context.value("launch.gpus_per_node")
    if isinstance(asked, int):
        return asked, f"launch.gpus_per_node is {asked}"
    if context.stack.gpus is None:
        return 1, f"the GPUs of {context.stack.origin} are not known, one is assumed"
    count = len(context.stack.gpus)
    return count, f"{context.stack.origin} has {count} GPU{'' if count == 1 else 's'}"
