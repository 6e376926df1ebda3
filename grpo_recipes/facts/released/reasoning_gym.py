"""The tasks of the tested release of reasoning-gym, with what configures them."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.facts.released.shipped import table

TABLE = "reasoning_gym"


class ConfigKey(NamedTuple):
    """type: as the package declares it. default: None also for one that JSON cannot hold."""

    type: str
    default: object


def release() -> str:
    """The release that the table is of."""
    return str(table(TABLE)["release"])


def task_names() -> tuple[str, ...]:
    """All tasks, in alphabetical order."""
    return tuple(table(TABLE)["tasks"])


def config_keys(task: str) -> Mapping[str, ConfigKey] | None:
    """What configures a task, None where there is no such task."""
    found = table(TABLE)["tasks"].get(task)
    return None if found is None else {name: ConfigKey(*said) for name, said in found.items()}
