"""Finds the rules: every module of this package that has an ID."""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import NamedTuple

import grpo_recipes.rules as package
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.settings import Setting

Check = Callable[[Context], Iterator[Finding]]
Decide = Callable[[Context], Iterator[Setting]]


class Rule(NamedTuple):
    """One rule file.

    id: the id in findings and `explain`. title: first line of its docstring; page: the whole docstring.
    applies_to: package -> version specifier, all must hold. owns: the keys that `decide` may set.
    reads: keys of other rules that `decide` reads, so it runs after those rules.
    """

    id: str
    name: str
    title: str
    page: str
    applies_to: Mapping[str, str]
    owns: tuple[str, ...]
    reads: tuple[str, ...]
    decide: Decide | None
    check: Check | None


def _rule(module: ModuleType) -> Rule:
    page = (module.__doc__ or "").strip()
    return Rule(
        id=module.ID,
        name=module.__name__.rpartition(".")[2],
        title=page.partition("\n")[0],
        page=page,
        applies_to=getattr(module, "APPLIES_TO", {}),
        owns=getattr(module, "OWNS", ()),
        reads=getattr(module, "READS", ()),
        decide=getattr(module, "decide", None),
        check=getattr(module, "check", None),
    )


@cache
def rules() -> tuple[Rule, ...]:
    """All rules by id."""
    names = (name.removesuffix(".py") for name in os.listdir(package.__path__[0]) if name.endswith(".py"))
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in sorted(names) if name[0] != "_")
    return tuple(sorted((_rule(m) for m in modules if hasattr(m, "ID")), key=lambda rule: rule.id))


@cache
def deciding_rules() -> tuple[Rule, ...]:
    """The rules with `decide`, each after the rules whose keys it reads."""
    return in_order(rule for rule in rules() if rule.decide is not None)


def in_order(deciding: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules sorted by id, except that each follows the owners of the keys it reads.

    Raises ValueError if two rules own a setting, if a setting that is read has no owner, or if rules wait for each
    other in a circle.
    """
    waiting = sorted(deciding, key=lambda rule: rule.id)
    owners: dict[str, Rule] = {}
    for rule in waiting:
        for key in rule.owns:
            if owners.setdefault(key, rule) is not rule:
                raise ValueError(f"{owners[key].id} and {rule.id} both own {key}")
    ordered: dict[str, Rule] = {}
    for rule in waiting:
        _follow(rule, owners, ordered, {})
    return tuple(ordered.values())


def _follow(rule: Rule, owners: Mapping[str, Rule], ordered: dict[str, Rule], path: Mapping[str, str]) -> None:
    """Adds the owners of the keys a rule reads, then the rule. path: the rules that wait for it, with the key each
    reads.
    """
    if rule.id in path:
        ids = [*path][[*path].index(rule.id) :]
        circle = " of ".join(f"{rule_id} reads {path[rule_id]}" for rule_id in ids)
        raise ValueError(f"rules wait for each other: {circle} of {rule.id}")
    if rule.id in ordered:
        return
    for key in rule.reads:
        if key not in owners:
            raise ValueError(f"{rule.id} reads {key}, which no rule decides")
        _follow(owners[key], owners, ordered, {**path, rule.id: key})
    ordered[rule.id] = rule
