"""Reads a configuration as its own program does: with PyYAML, that is as YAML 1.1."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.takeover.basis.draft import Draft, Row
from grpo_recipes.yaml.files import read_recipe
from grpo_recipes.yaml.load import script

MOST_VALUES = 10_000
LONGEST_NUMBER = 100
_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def read_mapping(path: str, draft: Draft, label: str = "") -> dict[str, object]:
    """The keys of a YAML or JSON file. label: the file's name to prefix keys with in the rows.

    A duplicate key gets a row, since the last one silently wins. Raises Refusal.
    """
    text = read_recipe(path)
    if isinstance(text, Finding):
        raise Refusal(text)
    language = script(text) if not path.endswith((".yaml", ".yml", ".json")) else None
    if language is not None:
        raise Refusal.of(f"{path}: it is {language[0]}", because="init --from reads YAML and JSON", fix=language[2])
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _count(node, path)
        value = json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as problem:  # invalid dates or JSON
        problem_text = " ".join(str(problem).split())
        raise Refusal.of(f"{path}: it cannot be read", because=problem_text) from problem
    if not isinstance(value, dict):
        raise Refusal.of(f"{path}: it has no keys", because="a configuration is a mapping of keys to values")
    for name in _twice(node):
        draft.rows.append(Row(f"{label}{name}", value.get(name), "emulated", (), "written twice; the last one counts"))
    return {str(key): _plain(part) for key, part in value.items()}


def _count(node: yaml.Node | None, path: str) -> None:
    """Raises Refusal for a file whose aliases expand to more than any real configuration."""
    waiting, count = [node], 0
    while waiting:
        child = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise Refusal.of(f"{path}: it has more than {MOST_VALUES} values", because="no configuration is that large")
        if isinstance(child, yaml.ScalarNode) and child.tag in _NUMBERS and len(child.value) > LONGEST_NUMBER:
            raise Refusal.of(
                f"{path}: it has a number of {len(child.value):,} characters",
                because=f"{LONGEST_NUMBER} are the most for a number or a date",
                fix=f"correct it in line {child.start_mark.line + 1}, or write it in quotes",
            )
        if isinstance(child, yaml.SequenceNode):
            waiting.extend(child.value)
        elif isinstance(child, yaml.MappingNode):
            waiting.extend(part for entry in child.value for part in entry)


def _plain(value: object) -> object:
    """A value with the dates, bytes and sets of YAML converted to texts and lists, since a recipe has none."""
    if isinstance(value, dict):
        return {key if isinstance(key, str | int | float) else str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part) for part in (sorted(value, key=str) if isinstance(value, set) else value)]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _twice(node: yaml.Node | None) -> list[str]:
    names = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    return sorted(str(name) for name, count in Counter(map(str, names)).items() if count > 1)


DATA = Path(__file__).parents[1] / "data"


@cache
def table_of(name: str) -> Mapping[str, Any]:
    """A table by its file's name without .json."""
    value: Mapping[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return value


def whole_steps(values: Mapping[str, object], share: object) -> int | None:
    """The steps for a share of all steps if the configuration has max_steps, else None.

    Source: transformers, trainer_callback.py: TrainerState.compute_steps.
    """
    most = values.get("max_steps")
    known = isinstance(most, int) and not isinstance(most, bool) and most > 0
    if not known or not isinstance(share, float) or not 0 < share < 1:
        return None
    return math.ceil(int(str(most)) * share)
