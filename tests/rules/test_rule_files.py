"""What every rule file has, and what none of them may do."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from rule_cases import CASES, all_cases, cases_of
from support.sources import nodes_of

import grpo_recipes
from grpo_recipes.rules.catalog import Rule, rules

PACKAGE = Path(grpo_recipes.__file__).parent
# Where versions are read and compared; everywhere else `applies_to` and data speak of them.
COMPARES_VERSIONS = ("stack/", "facts/", "resolve/engine.py")
VERSION_NAMES = {"Version", "__version__", "SpecifierSet", "parse_version"}


def _name(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", rules(), ids=_name)
def test_a_rule_has_cases_and_the_first_is_silent(rule: Rule) -> None:
    cases = cases_of(rule.id, CASES / f"{rule.name}.yaml")
    assert cases[0].finds == ()
    if rule.check is not None:
        assert any(case.finds for case in cases)
    if rule.decide is not None:
        assert {key for case in cases for key in case.settings} >= set(rule.owns)


@pytest.mark.parametrize("rule", rules(), ids=_name)
def test_a_rule_has_a_page_that_opens_with_a_sentence(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.id)
    assert rule.title.endswith(".")
    assert rule.page.count("\n") >= 2, "a title alone does not explain a rule"
    assert rule.page.split("\n")[1] == ""


@pytest.mark.parametrize("rule", rules(), ids=_name)
def test_a_rule_decides_or_checks_and_decides_only_what_it_owns(rule: Rule) -> None:
    assert rule.decide is not None or rule.check is not None
    assert bool(rule.owns) == (rule.decide is not None)


def test_ids_and_owned_keys_belong_to_one_rule() -> None:
    assert [rule_id for rule_id, count in Counter(rule.id for rule in rules()).items() if count > 1] == []
    owners = Counter(key for rule in rules() for key in rule.owns)
    assert [key for key, count in owners.items() if count > 1] == []


def test_every_case_file_belongs_to_a_rule_and_ids_are_unique() -> None:
    assert {path.stem for path in CASES.iterdir()} == {rule.name for rule in rules()}
    twice = Counter((case.rule, case.id) for case in all_cases())
    assert [case for case, count in twice.items() if count > 1] == []


def test_only_the_engine_and_the_facts_look_at_versions() -> None:
    offenders = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(COMPARES_VERSIONS):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Compare | ast.Call) and _speaks_of_versions(node):
                offenders.append(f"{place}:{node.lineno}")
    assert offenders == []


def _speaks_of_versions(node: ast.Compare | ast.Call) -> bool:
    """Whether a comparison has a version on one side, or a call makes one to be compared."""
    if isinstance(node, ast.Call):
        return _called(node) in VERSION_NAMES
    ordering = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
    sides = (node.left, *node.comparators)
    return any(_names_a_version(side, ordering) for side in sides)


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names_a_version(node: ast.expr, ordering: bool) -> bool:
    names = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return "__version__" in names or (ordering and bool(names & {"version", "python_version"}))
