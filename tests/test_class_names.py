"""A class has a name of its own: a search or a traceback that names it leads to one place."""

import ast
from collections import defaultdict
from pathlib import Path

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent
# To be given names of their own, too.
TWICE = {"Plan", "Refusal"}


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    found = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in found.items() if name not in TWICE} == {}
