"""The memory of a Slurm job is in the unit that was meant.

sbatch reads a number without a unit as megabytes: `mem: 64` gives each machine 64 MB, and Slurm kills the job while
Python imports torch. `mem` is for each machine, `mem-per-cpu` is multiplied by `slurm.cpus_per_task`, and `mem-per-gpu`
by `launch.gpus_per_node`. The rule warns of less than 480 MB for each process, which importing TRL takes; without
`slurm.cpus_per_task`, each process counts as one processor. 0 is all memory of the machine.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm, machines

ID = "WLD016"
OPTIONS = "slurm.options"
# Each option with the number that sbatch multiplies it by. Source: the manual of sbatch 24.11.
TIMES = {"mem": None, "mem-per-cpu": "slurm.cpus_per_task", "mem-per-gpu": "launch.gpus_per_node"}
# Measured: resident after `import trl` (1.16.0) and GRPOTrainer, with torch 2.13.0 for the CPU.
OF_A_PROCESS_MB = 480


def check(context: Context) -> Iterator[Finding]:
    processes = max(1, context.whole("world.num_processes") // machines(context))
    for name, key in TIMES.items() if is_slurm(context) else ():
        text = str(context.mapping(OPTIONS).get(name))
        factor = 1 if key is None else context.value(key)
        megabytes = int(text) * (factor if isinstance(factor, int) else processes) if text.isdecimal() else 0
        if 0 < megabytes < OF_A_PROCESS_MB * processes:
            yield context.finding(
                f"{name} {text} is {text} MB",
                f"{OPTIONS}.{name}",
                [
                    "sbatch reads a number without a unit as megabytes",
                    f"importing trl takes {OF_A_PROCESS_MB} MB in each process, and a machine has {processes}",
                ],
                fix=f"{name}: {text}G",
                severity="warning",
            )
