"""Every machine of a run trains with the same number of processes.

accelerate divides `launch.num_processes` by the number of machines and drops the remainder: 5 processes on 2 machines
become 4, and the batch differs from the planned one. On GPUs the number follows from `launch.gpus_per_node` (WLD002).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "WLD004"


def check(context: Context) -> Iterator[Finding]:
    nodes, processes = context.whole("world.num_nodes"), context.whole("world.num_processes")
    if context.value("world.device") != "cpu" or processes % nodes == 0:
        return
    better = -(-processes // nodes) * nodes
    message = f"{processes} process{'' if processes == 1 else 'es'} cannot be split evenly over {nodes} machines"
    because = ["accelerate starts the same number on each machine", context.settings["world.num_nodes"].why]
    yield context.wrong(message, "launch.num_processes", because, better)
