"""Reading a configuration as the program does that it was written for: PyYAML, thus YAML 1.1."""

import json
from pathlib import Path

import yaml

from grpo_recipes.errors import Refusal
from grpo_recipes.finding import Finding
from grpo_recipes.takeover.draft import Draft, Row
from grpo_recipes.yaml.files import read_recipe

MOST_VALUES = 10_000


def read_mapping(path: str, draft: Draft, label: str = "") -> dict[str, object]:
    """The keys of a YAML or JSON file. label: the file's name before its keys in the rows.

    A key that is written twice gets a row, since the last one counts in silence. Raises Refusal.
    """
    text = read_recipe(path)
    if isinstance(text, Finding):
        raise Refusal(f"{text.message}\n  = because: {'; '.join(text.because)}\n  = fix: {text.fix}")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _count(node, path)
        value = json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)
    except (yaml.YAMLError, json.JSONDecodeError, RecursionError) as problem:
        problem_text = " ".join(str(problem).split())
        raise Refusal(f"{path}: it cannot be read\n  = because: {problem_text}") from problem
    if not isinstance(value, dict):
        raise Refusal(f"{path}: it holds no keys\n  = because: a configuration is a mapping of keys to values")
    for name in _twice(node):
        draft.rows.append(Row(f"{label}{name}", value.get(name), "emulated", (), "written twice; the last one counts"))
    return {str(key): one for key, one in value.items()}


def _count(node: yaml.Node | None, path: str) -> None:
    """Raises Refusal for a file whose aliases make it larger than any configuration is."""
    waiting, seen = [node], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise Refusal(f"{path}: it has more than {MOST_VALUES} values\n  = because: no configuration is that large")
        if isinstance(one, yaml.SequenceNode):
            waiting.extend(one.value)
        elif isinstance(one, yaml.MappingNode):
            waiting.extend(part for entry in one.value for part in entry)


def _twice(node: yaml.Node | None) -> list[str]:
    names = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    return sorted({str(name) for name in names if names.count(name) > 1})
