"""The machines, the number of processes and the device are fixed before anything else is derived from them.

`launch.num_nodes` says how many machines there are, `launch.gpus_per_node` how many GPUs to use on each, and
`launch.num_processes` how many training processes in all. With both of the latter on auto there is one process per GPU,
or one on each machine without. This machine's GPUs are counted for all; where those of a declared target are not said,
one is planned for.

Where `training.cut` says how many processes the experiment has, `auto` takes so many GPUs of those that are there, and
so many processes on the CPU; GPUs that are not known are taken to be enough. More than there are is for BAT006 to tell.

A vLLM server of the run takes its GPUs first: the last `vllm_server.gpus` of the only machine, and of several machines
the whole last one.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.cut import PROCESSES, claimed
from grpo_recipes.rules._shared.machines import NODES, has_server_node, machines
from grpo_recipes.rules._shared.own_server import GPUS, USE_VLLM, VLLM_MODE, starts_server
from grpo_recipes.settings import Setting

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
    gpus, server_gpus = _shared(context, all_gpus)
    if machines(context) > 1:
        gpus, why = gpus * nodes, f"{why}, {nodes_why}"
    elif server_gpus:
        why += f", the vLLM server takes {server_gpus}"
    yield decided("world.num_nodes", nodes, ID, nodes_why, context.settings)
    yield decided("world.gpus", gpus, ID, why, context.settings)
    yield decided("world.server_gpus", server_gpus, ID, why, context.settings)
    yield decided("world.all_gpus", all_gpus, ID, why, context.settings)
    yield decided("world.device", "cuda" if gpus else "cpu", ID, why, context.settings)
    asked = context.value("launch.num_processes")
    if isinstance(asked, int):
        yield decided("world.num_processes", asked, ID, "launch.num_processes says so", context.settings)
    elif not gpus and (cut := claimed(context, PROCESSES)) is not None:
        yield decided("world.num_processes", cut, ID, f"{PROCESSES} is {cut}", context.settings)
    else:
        one = "one process per GPU" if gpus else "one process" if nodes == 1 else "one process on each machine"
        yield decided("world.num_processes", gpus or nodes, ID, f"{one}, {why}", context.settings)


def _training_nodes(context: Context) -> tuple[int, str]:
    """Machines that train."""
    nodes = machines(context)
    why = f"{NODES} is {nodes}"
    return (nodes - 1, f"{why}, the vLLM server has the last") if has_server_node(context) else (nodes, why)


def _shared(context: Context, gpus: int) -> tuple[int, int]:
    """GPUs of each machine's trainers and of their vLLM server; trainers plan for one where none is left (SRV001)."""
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
        return _assumed(context)
    count, needed = len(context.stack.gpus), _of_the_cut(context)
    why = f"{context.stack.origin} has {count} GPU{'' if count == 1 else 's'}"
    if needed is not None and needed < count:
        return needed, f"{why}, and {PROCESSES} is {claimed(context, PROCESSES)}"
    return count, why


def _assumed(context: Context) -> tuple[int, str]:
    """One GPU for the trainer, or those of the recipe's cut, and those of its server."""
    needed, why = _of_the_cut(context), f"the GPUs of {context.stack.origin} are not known, one is assumed"
    if needed is not None:
        return needed, f"the GPUs of {context.stack.origin} are not known, those of {PROCESSES} are assumed"
    wanted = context.settings.get(GPUS)
    if not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return 1, why
    return (wanted.value if has_server_node(context) else 1 + wanted.value), f"{why} to train on"


def _of_the_cut(context: Context) -> int | None:
    """GPUs of each machine for the processes that the recipe claims, and for its server; None without a claim."""
    processes, wanted = claimed(context, PROCESSES), context.settings.get(GPUS)
    if processes is None:
        return None
    of_training = -(-processes // _training_nodes(context)[0])
    if not starts_server(context) or wanted is None or not isinstance(wanted.value, int):
        return of_training
    return max(of_training, wanted.value) if has_server_node(context) else of_training + wanted.value
