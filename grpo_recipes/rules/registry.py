"""Finds the rules: every module of this package that has an ID."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import grpo_recipes.rules as package
from grpo_recipes.contract.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.settings import Setting

Check = Callable[[Context], Iterator[Finding]]
Decide = Callable[[Context], Iterator[Setting]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule file.

    id: what findings and `explain` call it. title: first line of its docstring, page: the whole.
    applies_to: package -> version specifier, all must hold. owns: the keys that decide may set.
    order: decide rules run by this number, then by id.
    """

    id: str
    name: str
    title: str
    page: str
    applies_to: Mapping[str, str]
    owns: tuple[str, ...]
    order: int
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
        order=getattr(module, "ORDER", 50),
        decide=getattr(module, "decide", None),
        check=getattr(module, "check", None),
    )


@cache
def rules() -> tuple[Rule, ...]:
    """All rules by id."""
    modules = (
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if not info.ispkg
    )
    return tuple(sorted((_rule(m) for m in modules if hasattr(m, "ID")), key=lambda rule: rule.id))
