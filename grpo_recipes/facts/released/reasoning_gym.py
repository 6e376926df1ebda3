"""The tasks of the tested release of reasoning-gym, with what configures them.

python -m grpo_recipes.facts.released.reasoning_gym      reads the installed package again
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from grpo_recipes.facts.released.shipped import DATA, table

TABLE = "reasoning_gym"
_SAID_BESIDE = ("seed", "size")


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


def read_installed() -> dict[str, Any]:
    """The table, of the package that is installed here; it is imported."""
    from dataclasses import MISSING, fields
    from importlib import import_module, metadata

    registered = import_module("reasoning_gym.factory").DATASETS
    import_module("reasoning_gym")
    tasks: dict[str, dict[str, list[Any]]] = {}
    for name, (_, config) in sorted(registered.items()):
        keys: dict[str, list[Any]] = {}
        for field in fields(config):
            made = field.default_factory() if field.default_factory is not MISSING else field.default
            known = json.loads(json.dumps(None if made is MISSING else made, default=lambda _: None))
            kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
            kind = str(field.type).replace("typing.", "") if "[" in str(field.type) else kind
            keys |= {} if field.name in _SAID_BESIDE else {field.name: [kind, known]}
        tasks |= {} if name == "composite" else {name: keys}
    return {"release": metadata.version("reasoning-gym"), "tasks": tasks}


def as_text(content: Mapping[str, Any]) -> str:
    """The table as it is written: a line for each task."""
    tasks = ",\n".join(f" {json.dumps(name)}: {json.dumps(keys)}" for name, keys in content["tasks"].items())
    return f'{{"release": {json.dumps(content["release"])}, "tasks": {{\n{tasks}\n}}}}\n'


if __name__ == "__main__":
    (DATA / f"{TABLE}.json").write_text(as_text(read_installed()), encoding="utf-8")
