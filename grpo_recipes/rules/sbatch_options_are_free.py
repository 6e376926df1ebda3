"""Options for sbatch are ones that the job's script leaves free, and stay on their line of it.

The keys of `slurm.options` are long options of sbatch without their dashes; each becomes one `#SBATCH` line. What the
job cannot do without is written by grpo-run itself: where its output goes, how many tasks it has, when it is told to
save. What the format has a key for is written there. A line break or a quotation mark in a value would begin another
option.
"""

import re
from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.machines import is_slurm

ID = "WLD006"
OPTIONS = "slurm.options"
NAME = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
# What a quoted word of an #SBATCH line cannot hold.
UNFIT = re.compile(r"[\"'\\`]")

HOMES = {
    "account": "slurm.account",
    "cpus-per-task": "slurm.cpus_per_task",
    "gpus": "launch.gpus_per_node",
    "gpus-per-node": "launch.gpus_per_node",
    "gpus-per-socket": "launch.gpus_per_node",
    "gpus-per-task": "launch.gpus_per_node",
    "job-name": "name",
    "nodes": "launch.num_nodes",
    "no-requeue": "slurm.max_requeues",
    "ntasks": "launch.num_nodes",
    "ntasks-per-core": "launch.num_nodes",
    "ntasks-per-gpu": "launch.num_nodes",
    "ntasks-per-node": "launch.num_nodes",
    "ntasks-per-socket": "launch.num_nodes",
    "partition": "slurm.partition",
    "qos": "slurm.qos",
    "requeue": "slurm.max_requeues",
    "signal": "slurm.signal_seconds",
    "time": "slurm.time",
    "tres-per-task": "launch.gpus_per_node",
}
OWNED = {
    **dict.fromkeys(("output", "error", "open-mode", "input"), "the job's output is train.log of the run folder"),
    **dict.fromkeys(("export", "export-file"), "the job gets the environment of grpo-run, and launch.environment"),
    **dict.fromkeys(("chdir", "wrap"), "the job is the run folder's own script"),
    "array": "two runs cannot share a folder",
    **dict.fromkeys(("distribution", "gpu-bind"), "each machine has one task, which starts its processes"),
    **dict.fromkeys(("cluster", "clusters"), "the job is followed on the cluster where it was submitted"),
    **dict.fromkeys(("wait", "parsable", "test-only", "quiet", "verbose"), "grpo-run itself calls sbatch"),
    **dict.fromkeys(("help", "usage", "version"), "it submits no job"),
}


def check(context: Context) -> Iterator[Finding]:
    if not is_slurm(context):
        return  # WLD005 says that nobody reads the section
    for name, value in context.mapping(OPTIONS).items():
        path = ("slurm", "options", name)
        if path in context.refused:
            continue
        if not NAME.fullmatch(name):
            yield _misspelt(context, name, value)
        elif name in HOMES:
            yield _finding(context, name, "one value has one place", f"write it as {HOMES[name]}, and remove it here")
        elif name in OWNED:
            yield _finding(context, name, OWNED[name], f"remove {name}")
        elif name == "gres" and "gpu" in str(value):
            gpus = "launch.gpus_per_node and slurm.gpu_type"
            yield _finding(context, name, "one value has one place", f"write it as {gpus}, and remove it here")
        elif isinstance(value, str) and (UNFIT.search(value) or not value.isprintable() or not value.strip()):
            yield _unfit(context, name)


def _unfit(context: Context, name: str) -> Finding:
    because = "a line break, a quotation mark or a backslash in it would begin something else there"
    patch = [Patch(("slurm", "options", name), remove=True)]
    return _found(context, name, f"the value of {name} is not one word of an #SBATCH line", because, None, patch)


def _misspelt(context: Context, name: str, value: object) -> Finding:
    right = re.sub(r"[_\s]+", "-", name.strip().lstrip("-").lower())
    is_name = NAME.fullmatch(right) is not None and right not in context.mapping(OPTIONS)
    patch = [Patch(("slurm", "options", name), remove=True)]
    if is_name and right not in HOMES and right not in OWNED:
        patch.append(Patch(("slurm", "options", right), value))
    because = "the long name of an option, without its dashes, such as mem-per-gpu"
    return _found(context, name, f"{name} is no option of sbatch", because, right if is_name else None, patch)


def _finding(context: Context, name: str, because: str, fix: str) -> Finding:
    patch = [Patch(("slurm", "options", name), remove=True)]
    return _found(context, name, f"{name} is not written under slurm.options", because, fix, patch)


def _found(context: Context, name: str, message: str, because: str, fix: str | None, patch: list[Patch]) -> Finding:
    path = ("slurm", "options", name)
    return context.finding(
        ID,
        message,
        f"{OPTIONS}.{name}",
        because=[because],
        fix=fix,
        patch=patch,
        mark=context.source.mark(path),
    )
