"""`launch`: where the processes run."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.contract.host.engines import Asked
from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveInt, Section

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,252}$")]


class LaunchSection(Section):
    """Where the processes run."""

    engine: Asked = "local"
    """local starts them on this machine, and of several machines prints the command for each. slurm submits a job."""
    num_nodes: PositiveInt = 1
    """Machines in all. With more than one, a vLLM server of the run takes the last one, and the others train."""
    gpus_per_node: NonNegativeInt | Auto = "auto"
    """GPUs to use on each machine. auto takes all of this one; slurm needs a number. 0 trains on the CPU."""
    num_processes: PositiveInt | Auto = "auto"
    """Training processes in all, the same number on each machine. auto: one per GPU, or one on a machine without."""
    main_process_ip: Address | None = None
    """Name or address of the first machine, as the others reach it, for the commands that are printed. slurm knows it
    by itself."""
    main_process_port: Annotated[int, Field(ge=1, le=65535)] = 29500
    """Port of the first machine where the processes of several machines find each other. slurm takes one that goes with
    the job."""
    sandbox: Literal["auto", "none"] = "auto"
    """What holds code that the model writes, where a tool or reward runs it in grpo-run's sandbox. auto: Landlock, else
    bubblewrap; a machine with neither does not load that tool or reward. none: only the limits of time, memory and size
    hold it, so that it has your rights; a run asks for consent to that."""
    environment: dict[str, str] = {}
    """Environment variables of the training processes. Ones that load code or carry secrets are refused; ones that are
    not known to be harmless ask for consent at run."""
