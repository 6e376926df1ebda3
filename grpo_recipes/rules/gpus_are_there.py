"""A run asks for no more GPUs, and no more processes on them, than the machine has.

torch starts one process per GPU; a process whose rank has no GPU dies with "invalid device ordinal" when it sets its
device, after every import.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context

ID = "WLD002"


def check(context: Context) -> Iterator[Finding]:
    gpus = context.stack.gpus
    asked = context.value("launch.gpus_per_node")
    processes = context.whole("world.num_processes")
    used = context.whole("world.gpus")
    if gpus is not None and isinstance(asked, int) and asked > len(gpus):
        yield context.finding(
            ID,
            f"{asked} GPUs are asked for, {context.stack.origin} has {len(gpus)}",
            "launch.gpus_per_node",
            fix=f"gpus_per_node: {len(gpus)}",
            patch=[Patch(("launch", "gpus_per_node"), len(gpus))],
        )
    elif gpus is None and isinstance(asked, int) and asked:
        yield context.finding(
            ID,
            f"whether {context.stack.origin} has {asked} GPUs is not known",
            "launch.gpus_per_node",
            severity="not-checked",
        )
    if used and processes != used:
        yield context.finding(
            ID,
            f"{processes} processes on {used} GPUs",
            "launch.num_processes",
            because=["each process drives one GPU", f"{context.settings['world.gpus'].why}"],
            fix=f"num_processes: {used}",
            patch=[Patch(("launch", "num_processes"), used)],
        )
