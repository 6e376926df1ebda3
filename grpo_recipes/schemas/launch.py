"""`launch`: where the processes run."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.contract.host.engines import Asked
from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveInt, Section

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,252}$")]


class LaunchSection(Section):
    """Where the processes run."""

    engine: Asked = "local"
    """local starts them on this machine, and for several machines prints a command for each. slurm submits a job."""
    num_nodes: PositiveInt = 1
    """Number of machines. With more than one, a vLLM server of the run takes the last one, and the others train."""
    gpus_per_node: NonNegativeInt | Auto = "auto"
    """GPUs to use on each machine. auto: all GPUs of this machine; slurm needs a number. 0: train on the CPU."""
    num_processes: PositiveInt | Auto = "auto"
    """Total number of training processes, the same on each machine. auto: one per GPU, or one per machine without GPUs.
    """
    main_process_ip: Address | None = None
    """Name or address under which the others reach the first machine, for the printed commands. slurm sets it itself.
    """
    main_process_port: Annotated[int, Field(ge=1, le=65535)] = 29500
    """Port of the first machine where the processes of several machines find each other. slurm derives it from the job.
    """
    sandbox: Literal["auto", "none"] = "auto"
    """Isolation of code that the model writes, if a tool or reward runs it in grpo-run's sandbox. auto: Landlock, or
    else bubblewrap; without either, that tool or reward does not load. none: only limits of time, memory and size, so
    the code has your rights; a run asks for consent to that.
    """
    environment: dict[str, str] = {}
    """Environment variables of the training processes. Variables that load code or carry secrets are refused; variables
    that are not known to be harmless need consent at run.
    """
