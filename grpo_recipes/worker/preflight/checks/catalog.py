"""Finds the checks: every module of this folder with a `check`. Checks that run while data is read have no `check`."""

import importlib
import os
from types import ModuleType

import grpo_recipes.worker.preflight.checks as package
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.seen import Seen


def checks() -> list[ModuleType]:
    """Returns the checks by id."""
    names = (name.removesuffix(".py") for name in os.listdir(package.__path__[0]) if name.endswith(".py"))
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in names if name[0] != "_")
    return sorted((one for one in modules if hasattr(one, "check")), key=lambda one: one.ID)


def faults_of(seen: Seen) -> list[Finding]:
    """Returns all faults, beginning with those found while data was read."""
    return [*seen.faults, *(fault._replace(rule=one.ID) for one in checks() for fault in one.check(seen))]
