"""`slurm`: the resources of the job of `launch.engine: slurm`."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveInt, Section

# Words in the header of a bash script: a shell or sbatch must read each as a single word.
SbatchWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+/=-]{0,252}$")]
Time = Annotated[
    str, Field(pattern=r"^([0-9]{1,9}|[0-9]{1,9}:[0-5]?[0-9](:[0-5]?[0-9])?|[0-9]{1,6}-[0-9]{1,2}(:[0-5]?[0-9]){0,2})$")
]


class SlurmSection(Section):
    """The job's resources; only used with launch.engine: slurm."""

    partition: SbatchWord | None = None
    """Partition, or several with commas. null: the cluster's default."""
    account: SbatchWord | None = None
    """Account to charge. null: the cluster's default."""
    qos: SbatchWord | None = None
    """Quality of service. null: the cluster's default."""
    time: Time | NonNegativeInt | None = None
    """Time limit of each start of the job, as sbatch takes it: minutes, or in quotes "MM:SS", "HH:MM:SS", "D-HH",
    "D-HH:MM" or "D-HH:MM:SS". 0: no limit; null: the partition's.
    """
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    """Type of the GPUs, by the cluster's own name: `scontrol show node` shows it under Gres. null: any."""
    cpus_per_task: PositiveInt | None = None
    """CPUs on each machine. null: the cluster's default, which may be one."""
    signal_seconds: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Seconds before the time limit at which the run saves and stops. It stops where a generation ends, so this has to
    exceed the longest step. auto: 600, or less if the time limit is short.
    """
    max_requeues: NonNegativeInt = 10
    """How often the job may requeue itself to resume from its last checkpoint. 0: never."""
    options: dict[str, int | Literal[True] | str] = {}
    """Further long options of sbatch without their dashes, such as `constraint: a100`; true for an option without a
    value.
    """
