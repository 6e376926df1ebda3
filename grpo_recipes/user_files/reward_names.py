"""What metrics and the evaluation call the rewards of a recipe, and what a recipe calls them."""

import os
from collections.abc import Mapping, Sequence


def reward_names(rewards: Sequence[Mapping[str, object]]) -> list[str]:
    """The name of each reward: the shipped one's, the function's, or the last part of a model's place.

    One that comes again has a number behind it.
    """
    names: list[str] = []
    for reward in rewards:
        name = _name(reward)
        number, free = 2, name
        while free in names:
            free, number = f"{name}_{number}", number + 1
        names.append(free)
    return names


def names_module(python: str) -> bool:
    """Whether `python` of a reward names a module of a package, `trl.rewards:f`, and not a file, `rewards.py:f`."""
    return not python.rpartition(":")[0].endswith(".py")


def _name(reward: Mapping[str, object]) -> str:
    if reward.get("python") is not None:
        return str(reward["python"]).rpartition(":")[2]
    return str(reward["name"]) if reward.get("model") is None else os.path.basename(str(reward["model"]))
