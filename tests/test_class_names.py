"""A class has a name of its own: a search or a traceback that names it leads to one place."""

import ast
from collections import defaultdict
from pathlib import Path

from support.sources import nodes_of

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    found = {name: where for name, where in places.items() if len(where) > 1}
    assert found == {}
