"""Every machine of a run trains with the same number of processes.

accelerate starts `launch.num_processes` divided by the machines on each of them and drops the rest: 5 on 2 machines
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
    said = f"{processes} process{'' if processes == 1 else 'es'} cannot be split evenly over {nodes} machines"
    because = ["accelerate starts the same number on each machine", context.settings["world.num_nodes"].why]
    yield context.wrong(said, "launch.num_processes", because, better)
