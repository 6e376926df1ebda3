"""Recipes resolved and rendered for a stack of the laboratory, as `grpo-run --dry-run --target` does."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import Stack

Recipe = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """folder: the run folder, None when the recipe was refused. shims: what the plan names."""

    folder: Path | None
    errors: tuple[Finding, ...]
    shims: dict[str, object]

    @property
    def refused_by(self) -> set[str]:
        """The rules that refuse it."""
        return {finding.rule for finding in self.errors}


def declared(stack: str) -> Stack:
    """The stack by its pins, for the rest as .venv, on a machine without a GPU."""
    packages = {name.replace("_", "-"): version for name, version in _pins(stack).items()}
    return probe()._replace(
        packages={**probe().packages, **packages}, gpus=(), declared=True, origin=f"the stack {stack}"
    )


def _pins(stack: str) -> dict[str, str]:
    environment = ENVIRONMENTS[stack]
    behind = ENVIRONMENTS[environment.over.name].pins if environment.over is not None else {}
    return {**behind, **environment.pins}


def rendered(recipe: Recipe, stack: str, folder: Path, without: Collection[str] = ()) -> Rendered:
    """The run folder of a recipe, written to folder/run, or what refuses it. without: shims to leave out."""
    folder.mkdir(parents=True)
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(recipe, indent=1))
    resolution = resolve(str(file), declared(stack))
    errors = tuple(finding for finding in resolution.findings if finding.severity == "error")
    if errors or resolution.context is None:
        return Rendered(None, errors, {})
    plan = plan_of(resolution)
    plan = replace(plan, shims={name: value for name, value in plan.shims.items() if name not in without})
    written = write_run_folder(plan, str(folder / "run"), merged_recipe_text(resolution.context.source))
    return Rendered(Path(written), (), plan.shims)
