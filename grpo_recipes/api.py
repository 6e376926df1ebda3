"""What grpo-run knows, for notebooks and programs: recipes, findings, plans, runs and their metrics.

    from grpo_recipes.api import load, validate, plan, runs, metrics

Prints, starts and writes nothing, and does not import torch. Failures raise `Refusal`, whose `findings` say where, why,
and what to write instead.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import yaml

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding, has_errors
from grpo_recipes.contract.metrics import METRICS_FILE, read_all
from grpo_recipes.contract.plan import Plan
from grpo_recipes.resolve.resolve import Resolution, plan_of, resolve_source
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe, merged_recipe_text
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source, compose

if TYPE_CHECKING:
    import pandas

__all__ = ["Finding", "LoadedRecipe", "Plan", "Refusal", "load", "metrics", "plan", "runs", "validate"]

_OF_A_DICT = "recipe"  # its file in findings


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe that was read, with its parents merged in and its overrides applied.

    file: as it was given, "recipe" for a dict. values: the merged values by section, with absolute paths, so that a
    changed copy can be loaded from anywhere; `validate` checks them.
    """

    file: str
    values: dict[str, Any]
    source: Source
    reading: tuple[Finding, ...] = ()

    @property
    def text(self) -> str:
        """The merged recipe as a standalone file."""
        return merged_recipe_text(self.source)


AnyRecipe = LoadedRecipe | str | os.PathLike[str] | Mapping[str, Any]


def load(recipe: AnyRecipe, overrides: Mapping[str, object] | None = None) -> LoadedRecipe:
    """Reads a recipe: the path of a file, or a dict of the same form, whose paths are relative to the current folder.

    overrides: values by their keys, {"grpo.beta": 0.04, "rewards[0].weight": 2}, as `--set` takes them.
    Raises Refusal for a file that is missing or cannot be read, and an override that cannot be applied.
    """
    if isinstance(recipe, LoadedRecipe):
        return load(recipe.values, overrides) if overrides else recipe
    is_dict = isinstance(recipe, Mapping)
    if not is_dict and not isinstance(recipe, str | os.PathLike):
        raise Refusal.of(
            f"a recipe cannot be of type {type(recipe).__name__}", fix="a path, a dict, or the result of load()"
        )
    if not isinstance(overrides or {}, Mapping):
        raise Refusal.of(f"overrides cannot be of type {type(overrides).__name__}", fix='a dict: {"grpo.beta": 0.04}')
    file = _OF_A_DICT if is_dict else os.fspath(recipe)  # type: ignore[arg-type]
    words = [f"{key}={_as_json(key, value)}" for key, value in (overrides or {}).items()]
    source, findings = compose(file, words, _as_yaml(recipe) if is_dict else None)
    refused = [finding for finding in findings if finding.severity == "error"]
    if source is None or any(finding.mark is None or finding.mark.file == "--set" for finding in refused):
        raise Refusal(*refused)
    return LoadedRecipe(file, merged_recipe(source), source, tuple(findings))


def validate(
    recipe: AnyRecipe, *, target: str | Stack | None = None, strict: bool = False, accept: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Returns the findings of `grpo-run validate` for a recipe; () without any.

    target: a stack, as `--target` takes one, "tested,gpus=8xH100-80GB"; None is this machine, or
    "tested" if it lacks the training stack. strict: unchecked points
    are errors. accept: ids of rules whose errors are warnings. Raises Refusal as load, and for an unreadable target or
    an unknown id.
    """
    return _resolve(recipe, target, strict, accept).findings


def plan(
    recipe: AnyRecipe, *, target: str | Stack | None = None, strict: bool = False, accept: Sequence[str] = ()
) -> Plan:
    """Returns the plan of a recipe: every value with its origin and reason, as in plan.json.

    Raises Refusal as validate, and with the findings of a recipe that has errors.
    """
    resolution = _resolve(recipe, target, strict, accept)
    if has_errors(resolution.findings):
        raise Refusal(*(finding for finding in resolution.findings if finding.severity == "error"))
    return plan_of(resolution)


def runs(folder: str | os.PathLike[str] = "runs") -> list[dict[str, Any]]:
    """Returns the runs of a folder, newest first: the rows of `grpo-run runs FOLDER --json`.

    Each has name, folder, status, because, step, max_steps, reward, before, after, seconds, at, verdict (the conclusion
    about a completed run), and under `values` the planned values in which these runs differ. Raises Refusal for a
    folder that cannot be listed.
    """
    from grpo_recipes.report.runs.run_row import read_runs
    from grpo_recipes.report.runs.runs_text import differing, runs_json

    listing = read_runs(os.fspath(folder))
    rows: list[dict[str, Any]] = json.loads(runs_json(listing, listing.runs, differing(listing.runs)))["runs"]
    return rows


@overload
def metrics(folder: str | os.PathLike[str], event: str = "step", *, frame: Literal[True]) -> "pandas.DataFrame": ...
@overload
def metrics(folder: str | os.PathLike[str], event: str = "step", *, frame: Literal[False]) -> list[dict[str, Any]]: ...
@overload
def metrics(
    folder: str | os.PathLike[str], event: str = "step", *, frame: None = None
) -> "pandas.DataFrame | list[dict[str, Any]]": ...
def metrics(
    folder: str | os.PathLike[str], event: str = "step", *, frame: bool | None = None
) -> "pandas.DataFrame | list[dict[str, Any]]":
    """Returns the metrics of a run, a row for each step, from metrics.jsonl, also while it trains.

    event: step, or another kind of that file: evaluation, guard, server, start, end. The columns are the names of
    TRL, such as reward, loss, kl, and `rewards/NAME/mean`; step counts from 1, time is Unix.
    frame: True gives a pandas.DataFrame, False a list of dicts, None the DataFrame if pandas is installed.
    Raises Refusal for a folder without metrics.jsonl, and for frame=True ImportError without pandas.
    """
    path = os.path.join(os.fspath(folder), METRICS_FILE)
    if not os.path.isfile(path):
        raise Refusal.of(
            f"{os.fspath(folder)}: it has no metrics",
            because=f"it has no {METRICS_FILE}",
            fix="name a run folder whose training has started",
        )
    rows = [{key: value for key, value in row.items() if key != "event"} for row in read_all(path) if _is(row, event)]
    if frame is False:
        return rows
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return rows
    return pandas.DataFrame(rows)


def _is(row: Mapping[str, object], event: str) -> bool:
    return row.get("event", "step") == event


def _resolve(recipe: AnyRecipe, target: str | Stack | None, strict: bool, accept: Sequence[str]) -> Resolution:
    from grpo_recipes.cli.options import choose_stack
    from grpo_recipes.cli.resolving import apply_options

    loaded = load(recipe)
    if not isinstance(target, Stack | str | None):
        raise Refusal.of(f"a target cannot be of type {type(target).__name__}", fix='text: "tested,gpus=8xH100-80GB"')

    stack = target if isinstance(target, Stack) else choose_stack(target, announce=False)
    accept = (accept,) if isinstance(accept, str) else accept
    return apply_options(resolve_source(loaded.source, stack, loaded.reading), strict=strict, accepted=accept)


def _as_json(key: str, value: object) -> str:
    """A value as `--set` reads it."""
    try:
        return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise Refusal.of(
            f"{key}: {value!r} is not a value that a recipe can have",
            because=str(problem),
            fix="text, finite numbers, booleans, None, lists and dicts of them",
        ) from None


def _as_yaml(recipe: object) -> str:
    try:
        return yaml.safe_dump(dict(recipe), sort_keys=False)  # type: ignore[call-overload]
    except yaml.representer.RepresenterError as problem:
        raise Refusal.of(
            "the recipe has a value that YAML cannot write",
            because=str(problem.args[-1]) if problem.args else str(problem),
            fix="text, numbers, booleans, None, lists and dicts of them",
        ) from None
