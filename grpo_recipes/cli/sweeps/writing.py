"""Writes the folder of a sweep with all its run folders, completely or not at all."""

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from grpo_recipes.cli.launching import Ready
from grpo_recipes.cli.sweeps.planning import PlannedSweep
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.catalog import engine_of
from grpo_recipes.errors import Refusal
from grpo_recipes.lock.completed import completed, with_pinned_code
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.sweep.sweep_file import Sweep, write_sweep_file
from grpo_recipes.trust.code import code_parts
from grpo_recipes.trust.consent import consent


def trusted(planned: PlannedSweep, allowed: Sequence[str]) -> PlannedSweep:
    """The runs with their remote code pinned and allowed. Raises Refusal for code that is not allowed."""
    ready = tuple(replace(one, plan=with_pinned_code(one.plan)) for one in planned.ready)
    parts = {part.sha256: part for one in ready for part in code_parts(one.plan)}
    files = tuple(dict.fromkeys(file for one in ready for file in one.files))
    for line in consent(list(parts.values()), allowed, files):
        click.echo(redact(line), err=True)
    return planned._replace(ready=ready)


def write_sweep(sweep: Sweep, ready: Sequence[Ready], folder: str, *, is_code_pinned: bool) -> str:
    """Writes the folder of a sweep, which must not exist or be empty, and returns its absolute path.

    It is built beside its final path and then renamed. Raises Refusal if that exists or cannot be written.
    """
    target = Path(os.path.abspath(folder))
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise _taken(target)
    building = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        building.mkdir(parents=True)
        for run, one in zip(sweep.runs, ready, strict=True):
            plan = _whole(one.plan, target / run.name, is_code_pinned=is_code_pinned)
            write_run_folder(plan, str(building / run.name), one.recipe_text, engine_of(plan).files(plan))
        write_sweep_file(building, sweep)
        building.rename(target)
    except OSError as problem:
        if target.exists() and any(target.iterdir()):
            raise _taken(target) from problem
        raise Refusal.of(
            f"{target}: the sweep folder cannot be written",
            because=str(problem.strerror or problem),
            fix="free some space, or use --out with another folder",
        ) from problem
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return str(target)


def _whole(plan: Plan, folder: Path, *, is_code_pinned: bool) -> Plan:
    return replace(completed(plan, is_code_pinned=is_code_pinned), folder=str(folder))


def _taken(target: Path) -> Refusal:
    return Refusal.of(
        f"{target}: the folder already exists",
        because="a sweep needs a new folder",
        fix="--out with a folder that does not exist yet",
    )
