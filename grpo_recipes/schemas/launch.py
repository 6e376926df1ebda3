"""`launch`: where the processes run."""

from typing import Literal

from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveInt, Section


class Launch(Section):
    """Where the processes run."""

    engine: Literal["local"] = "local"
    """local starts them on this machine."""
    num_nodes: Literal[1] = 1
    """Machines. The local engine has one."""
    gpus_per_node: NonNegativeInt | Auto = "auto"
    """GPUs to use on each machine. auto takes all, 0 trains on the CPU."""
    num_processes: PositiveInt | Auto = "auto"
    """Training processes in all. auto: one per GPU, or one on a machine without."""
    environment: dict[str, str] = {}
    """Environment variables of the training processes. Ones that load code or carry secrets are refused."""
