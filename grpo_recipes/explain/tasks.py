"""The tasks of reasoning-gym, and the keys of each."""

import json
import textwrap

from grpo_recipes.facts.released import reasoning_gym as facts

_WIDTH = 100


def task_list() -> str:
    """The names of all tasks, and how to see the keys of one."""
    names = facts.task_names()
    listed = textwrap.fill(" ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    head = f"dataset.reasoning_gym makes rows of the {len(names)} tasks of reasoning-gym {facts.release()}:"
    return f"{head}\n\n{listed}\n\ngrpo-run explain reasoning_gym.{names[0]} shows the keys of one"


def task_page(task: str) -> str | None:
    """The keys of a task with their types and defaults, None for an unknown task."""
    keys = facts.config_keys(task)
    if keys is None:
        return None
    width = max((len(name) for name in keys), default=0)
    lines = [f"  {name:<{width}}  {json.dumps(key.default)}  ({key.type})" for name, key in keys.items()]
    head = f"reasoning_gym.{task}, a task of reasoning-gym {facts.release()}"
    return "\n".join([head, "", "keys of its config, with their defaults:" if keys else "it has no config", *lines])
