"""A rule asks for values by name, and a name that nobody ever sets is an error."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_cases import BASE_RECIPE, declared, resolved

import grpo_recipes
from grpo_recipes.facts.released.history import history
from grpo_recipes.resolve.rename import TARGETS
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.models import sections

PACKAGE = Path(grpo_recipes.__file__).parent
PLACES = ("rules", "resolve/planning")
METHODS = {"value", "whole", "text", "mapping", "given", "origin", "recipe_key", "mark"}


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _asked(source: str) -> Iterator[tuple[str, int]]:
    """The names that are asked of a context, written out or by a constant of the module, with their lines."""
    tree = ast.parse(source)
    constants = _constants(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "context"
            and node.args
        ):
            first = node.args[0]
            name = constants.get(first.id, "") if isinstance(first, ast.Name) else getattr(first, "value", "")
            if isinstance(name, str) and re.fullmatch(r"\w+(\.\w+)+", name):
                yield name, node.lineno


def _is_known(name: str) -> bool:
    owner, _, field = name.partition(".")
    if owner in ("GRPOConfig", "LoraConfig", "BitsAndBytesConfig"):
        return bool(history(owner, field))
    owned = {key for rule in rules() for key in rule.owns}
    return name in owned | set(TARGETS.values()) | set(recipe_keys()) | set(sections())


def test_a_misspelled_name_would_be_seen() -> None:
    source = 'SIZE = "GRPOConfig.bta"\ndef check(context):\n    context.value(SIZE)\n    context.whole("grpo.bta")\n'
    assert [name for name, _ in _asked(source) if not _is_known(name)] == ["GRPOConfig.bta", "grpo.bta"]
    assert _is_known("GRPOConfig.beta") and _is_known("grpo.beta") and _is_known("batch.one_prompt")


def test_every_name_that_is_asked_for_is_set_by_somebody() -> None:
    asked = [
        (f"{path.relative_to(PACKAGE)}:{line}", name)
        for place in PLACES
        for path in sorted((PACKAGE / place).rglob("*.py"))
        for name, line in _asked(path.read_text(encoding="utf-8"))
    ]
    assert len(asked) > 200
    assert [(place, name) for place, name in asked if not _is_known(name)] == []


def test_a_name_that_nobody_sets_ends_the_rule_that_asks_for_it(tmp_path: Path) -> None:
    context = resolved(BASE_RECIPE, declared(), tmp_path).context
    assert context is not None
    assert context.value("lora.r") is None and context.value("LoraConfig.use_dora") is None
    assert context.value("shims.first_weights") is None and not context.is_given("training.cut.processes")
    for name in ("GRPOConfig.bta", "grpo.bta", "shims.first_weight", "bta"):
        with pytest.raises(KeyError, match=f"no recipe and no rule sets {name}"):
            context.value(name)
        with pytest.raises(KeyError, match=f"no recipe and no rule sets {name}"):
            context.is_given(name)
