"""Finds the shims by their file names, and applies those of the plan."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import grpo_recipes.worker.shims as package
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused


def known_shims() -> list[str]:
    """Returns the names of all shims."""
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in names if name[0] != "_" and name != "catalog")


def apply_before_trainer(plan: Plan) -> None:
    """Applies the shims that must precede the training arguments. Raises Refused for an unknown shim."""
    unknown = [name for name in plan.shims if name not in known_shims()]
    if unknown:
        raise Refused.of(f"this worker has no shim {', '.join(unknown)}", because="plan.json names it")
    for name, value in plan.shims.items():
        apply = getattr(_module(name), "before_trainer", None)
        if apply is not None:
            apply(value, plan)


def apply_on_trainer(trainer: Any, plan: Plan) -> dict[str, str]:
    """Applies the others to the trainer; returns the effect of each."""
    outcomes = {}
    for name, value in plan.shims.items():
        apply = getattr(_module(name), "on_trainer", None)
        outcomes[name] = "applied" if apply is None else apply(trainer, value, plan)
    return outcomes


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")
