"""The machines, the number of processes and the device are fixed before anything else is derived from them.

`launch.num_nodes` is the number of machines, `launch.gpus_per_node` the number of GPUs to use on each, and
`launch.num_processes` the total number of training processes. If the last two are auto, there is one process per GPU,
or one per machine without GPUs. The plan assumes that all machines have this machine's GPUs; if a declared target does
not name its GPUs, it assumes one GPU.

If `training.cut` sets the number of processes, `auto` takes that many of the available GPUs, or that many processes on
the CPU; unknown GPUs count as enough. BAT006 reports if there are too few. A vLLM server of the run takes its GPUs
first: the last `vllm_server.gpus` of the only machine, or the last of several machines.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.batch_cut import PROCESSES, number_of_cut
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.machines import NODES, has_server_node, machines
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.vllms_gpu import GPUS, USE_VLLM, VLLM_MODE, starts_server

ID = "WLD001"
OWNS = (
    "world.num_nodes",
    "world.device",
    "world.num_processes",
    "world.gpus",
    "world.server_gpus",
    "world.all_gpus",
)


def decide(context: Context) -> Iterator[Setting]:
    context = context.as_written(USE_VLLM, VLLM_MODE)  # GEN001 waits for the world
    all_gpus, why = _gpus(context)
    nodes, nodes_why = _training_nodes(context)
    gpus, server_gpus = _split_gpus(context, all_gpus)
    if machines(context) > 1:
        gpus, why = gpus * nodes, f"{why}, {nodes_why}"
    elif server_gpus:
        why += f", the vLLM server takes {server_gpus}"
    yield rule_setting("world.num_nodes", nodes, nodes_why)
    yield rule_setting("world.gpus", gpus, why)
    yield rule_setting("world.server_gpus", server_gpus, why)
    yield rule_setting("world.all_gpus", all_gpus, why)
    yield rule_setting("world.device", "cuda" if gpus else "cpu", why)
    asked = context.value("launch.num_processes")
    if isinstance(asked, int):
        yield rule_setting("world.num_processes", asked, "set by launch.num_processes")
    elif not gpus and (cut := number_of_cut(context, PROCESSES)) is not None:
        yield rule_setting("world.num_processes", cut, f"{PROCESSES} is {cut}")
    else:
        processes = "one process per GPU" if gpus else "one process" if nodes == 1 else "one process on each machine"
        yield rule_setting("world.num_processes", gpus or nodes, f"{processes}, {why}")


def _training_nodes(context: Context) -> tuple[int, str]:
    """Machines that train."""
    nodes = machines(context)
    why = f"{NODES} is {nodes}"
    return (nodes - 1, f"{why}, the vLLM server has the last") if has_server_node(context) else (nodes, why)


def _split_gpus(context: Context, gpus: int) -> tuple[int, int]:
    """GPUs of each machine's trainers and of their vLLM server; trainers plan for one if none is left (SRV001)."""
    wanted = context.settings.get(GPUS)
    if not gpus or not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return gpus, 0
    return (gpus if has_server_node(context) else max(gpus - wanted.value, 1)), wanted.value


def _gpus(context: Context) -> tuple[int, str]:
    """GPUs of each machine."""
    asked = context.value("launch.gpus_per_node")
    if isinstance(asked, int):
        return asked, f"launch.gpus_per_node is {asked}"
    if context.stack.gpus is None:
        return _assume_gpus(context)
    count, needed = len(context.stack.gpus), _of_the_cut(context)
    why = f"{context.stack.origin} has {count} GPU{'' if count == 1 else 's'}"
    if needed is not None and needed < count:
        return needed, f"{why}, and {PROCESSES} is {number_of_cut(context, PROCESSES)}"
    return count, why


def _assume_gpus(context: Context) -> tuple[int, str]:
    """One GPU for the trainer, or those of the recipe's cut, and those of its server."""
    needed, why = _of_the_cut(context), f"the GPUs of {context.stack.origin} are unknown, so the plan assumes one"
    if needed is not None:
        return needed, f"the GPUs of {context.stack.origin} are unknown, so the plan assumes those of {PROCESSES}"
    wanted = context.settings.get(GPUS)
    if not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return 1, why
    return (wanted.value if has_server_node(context) else 1 + wanted.value), f"{why} to train on"


def _of_the_cut(context: Context) -> int | None:
    """GPUs of each machine for the processes that the recipe claims, and for its server; None without a claim."""
    processes, wanted = number_of_cut(context, PROCESSES), context.settings.get(GPUS)
    if processes is None:
        return None
    of_training = -(-processes // _training_nodes(context)[0])
    if not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return of_training
    return max(of_training, wanted.value) if has_server_node(context) else of_training + wanted.value
