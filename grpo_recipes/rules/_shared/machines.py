"""The machines of a run, for rules."""

from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.own_server import starts_server

ENGINE, NODES = "launch.engine", "launch.num_nodes"


def is_slurm(context: Context) -> bool:
    """Whether Slurm assigns the machines."""
    setting = context.settings.get(ENGINE)
    return setting is not None and not setting.refused and setting.value == "slurm"


def machines(context: Context) -> int:
    """The number of machines of the run, 1 if the number was refused."""
    setting = context.settings.get(NODES)
    return setting.value if setting is not None and not setting.refused and isinstance(setting.value, int) else 1


def has_server_node(context: Context) -> bool:
    """Whether the run's vLLM server has its own machine: the last of several."""
    return machines(context) > 1 and starts_server(context)
