"""`slurm`: what the job of `launch.engine: slurm` asks the cluster for."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveInt, Section

# Words of the header of a bash script: nothing that a shell or sbatch would read as more than one word.
SbatchWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+/=-]{0,252}$")]
Time = Annotated[
    str, Field(pattern=r"^([0-9]{1,9}|[0-9]{1,9}:[0-5]?[0-9](:[0-5]?[0-9])?|[0-9]{1,6}-[0-9]{1,2}(:[0-5]?[0-9]){0,2})$")
]


class SlurmSection(Section):
    """What the job asks the cluster for; read with launch.engine: slurm alone."""

    partition: SbatchWord | None = None
    """Partition, or several with commas. null leaves it to the cluster."""
    account: SbatchWord | None = None
    """Account that the time is charged to. null leaves it to the cluster."""
    qos: SbatchWord | None = None
    """Quality of service. null leaves it to the cluster."""
    time: Time | NonNegativeInt | None = None
    """Time limit of each start of the job, as sbatch takes it: minutes, or in quotes "MM:SS", "HH:MM:SS", "D-HH",
    "D-HH:MM" or "D-HH:MM:SS". 0 is none, null the partition's."""
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    """Type of the GPUs, by the cluster's own name: `scontrol show node` has it under Gres. null takes any."""
    cpus_per_task: PositiveInt | None = None
    """Processors on each machine. null leaves it to the cluster, which may give one."""
    signal_seconds: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Seconds before the time limit at which the run saves and stops. It stops where a generation ends, so they have
    to hold the longest step. auto: 600, or less where the time limit is short."""
    max_requeues: NonNegativeInt = 10
    """How often the job puts itself back into the queue, to go on from its last checkpoint. 0 never does."""
    options: dict[str, int | Literal[True] | str] = {}
    """More long options of sbatch without their dashes, such as `constraint: a100`; true for one without a value."""
