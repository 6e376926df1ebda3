"""Reads the tasks of the installed reasoning-gym again: `make facts`, or `python tests/rewards/gym_table.py`."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib import import_module, metadata
from typing import Any

from grpo_recipes.facts.released.history import TABLE
from grpo_recipes.facts.released.shipped import DATA


def read_installed() -> dict[str, Any]:
    """The table, of the package that is installed here; it is imported."""
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
            keys |= {} if field.name in ("seed", "size") else {field.name: [kind, known]}
        tasks |= {} if name == "composite" else {name: keys}
    return {"release": metadata.version("reasoning-gym"), "tasks": tasks}


def as_text(content: Mapping[str, Any]) -> str:
    """The table as it is written: a line for each task."""
    tasks = ",\n".join(f" {json.dumps(name)}: {json.dumps(keys)}" for name, keys in content["tasks"].items())
    return f'{{"release": {json.dumps(content["release"])}, "tasks": {{\n{tasks}\n}}}}\n'


if __name__ == "__main__":
    (DATA / f"{TABLE}.json").write_text(as_text(read_installed()), encoding="utf-8")
