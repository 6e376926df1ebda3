"""A run does not request more GPUs, or more processes on them, than its machines have.

torch starts one process per GPU; a process whose rank has no GPU dies with "invalid device ordinal" when it sets its
device, after every import. If the driver does not report this machine's GPUs, grpo-run does not guess, because a
machine with eight might train on one. With `launch.engine: slurm`, training runs on a different machine, so this
machine's GPUs do not matter and you must set `launch.gpus_per_node`. A recipe that sets CUDA_VISIBLE_DEVICES, or the
variable of AMD's GPUs, hides all others from its processes.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.batch_cut import PROCESSES, number_of_cut
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import ENGINE, UNKNOWN_GPUS, is_of_a_cluster

ID = "WLD002"
GPUS = "launch.gpus_per_node"
ENVIRONMENT = "launch.environment"
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def check(context: Context) -> Iterator[Finding]:
    asked = context.value(GPUS)
    if is_of_a_cluster(context) and asked == "auto":
        message = "launch.gpus_per_node is auto, but the GPUs of the cluster are unknown"
        reason = "a cluster gives a job the GPUs that it requests; this machine's GPUs do not matter"
        fix = "launch.gpus_per_node: 8, or as many as each machine has; 0 trains on the CPU"
        yield context.finding(message, GPUS if context.is_given(GPUS) else ENGINE, reason, fix=fix)
        return
    is_guessed = asked == "auto" and context.stack.gpus is None and number_of_cut(context, PROCESSES) is None
    if is_guessed and not context.stack.declared:
        reason = "it has an NVIDIA driver, but nvidia-smi is missing, fails or did not answer within 30 s"
        fix = "launch.gpus_per_node: 8, or as many as it has; 0 trains on the CPU"
        yield context.finding("the number of GPUs in this machine is unknown", GPUS, reason, fix=fix)
        return
    gpus = context.stack.gpus
    if gpus is not None and isinstance(asked, int) and asked > len(gpus):
        message = f"the recipe asks for {asked} GPUs, but {context.stack.origin} has {len(gpus)}"
        why = f"each process has its own GPU; gpus_per_node: {context.origin(GPUS)}"
        yield context.wrong(message, GPUS, why, len(gpus))
    elif gpus is None and isinstance(asked, int) and asked and not is_of_a_cluster(context):
        yield context.not_checked(f"whether {context.stack.origin} has {asked} GPUs is unknown", GPUS, UNKNOWN_GPUS)
    yield from _find_hidden_gpus(context)
    processes, used = context.whole("world.num_processes"), context.whole("world.gpus")
    if used and processes != used:
        because = ["each process drives one GPU", f"{context.settings['world.gpus'].why}"]
        yield context.wrong(f"{processes} processes cannot train on {used} GPUs", "launch.num_processes", because, used)


def _find_hidden_gpus(context: Context) -> Iterator[Finding]:
    """The finding for a variable that shows the processes fewer GPUs than are planned."""
    planned = context.whole("world.all_gpus")
    for name, value in context.mapping(ENVIRONMENT).items():
        shown = [gpu.strip() for gpu in str(value).split(",")]
        count = next((index for index, gpu in enumerate(shown) if gpu in ("", "-1")), len(shown))
        if name in VISIBLE and count < planned:
            message = f"{name} shows {count} GPU{'' if count == 1 else 's'}, but {planned} are planned on each machine"
            because = ["a process whose GPU is hidden dies with invalid device ordinal"]
            because.append(context.settings["world.all_gpus"].why)
            fix = f"gpus_per_node: {count}, or remove {name}"
            patch = [Patch((*ENVIRONMENT.split("."), name), remove=True)]
            mark = context.source.mark(("launch", "environment", name))
            yield context.finding(message, ENVIRONMENT, because, fix=fix, patch=patch, mark=mark)
