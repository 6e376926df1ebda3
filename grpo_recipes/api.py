"""What grpo-run knows, for notebooks and programs: recipes, findings, plans, runs and their metrics.

    from grpo_recipes.api import load, validate, plan, runs, metrics

Nothing is printed, started or written, and torch is not imported. What cannot be done is raised as `Refusal`, whose
`findings` say where, why, and what to write instead.
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

_OF_A_DICT = "recipe"  # what findings name it


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe that was read, with its parents merged in and its overrides applied.

    file: as it was given, "recipe" for one that was a dict. values: all that it says, by section, with absolute paths,
    so that a changed copy can be loaded from anywhere. What is wrong with them is what `validate` says.
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
    """Reads a recipe: the path of a file, or a dict of the same form, whose paths start from the current folder.

    overrides: values by their keys, {"grpo.beta": 0.04, "rewards[0].weight": 2}, as `--set` takes them.
    Raises Refusal for a file that is missing or cannot be read, and an override that cannot be applied.
    """
    if isinstance(recipe, LoadedRecipe):
        return load(recipe.values, overrides) if overrides else recipe
    is_dict = isinstance(recipe, Mapping)
    if not is_dict and not isinstance(recipe, str | os.PathLike):
        raise Refusal.of(
            f"a recipe is no {type(recipe).__name__}", fix="the path of a file, a dict, or what load() gave"
        )
    if not isinstance(overrides or {}, Mapping):
        raise Refusal.of(f"overrides are no {type(overrides).__name__}", fix='a dict: {"grpo.beta": 0.04}')
    file = _OF_A_DICT if is_dict else os.fspath(recipe)  # type: ignore[arg-type]
    words = [f"{key}={_as_json(key, value)}" for key, value in (overrides or {}).items()]
    source, findings = compose(file, words, _as_yaml(recipe) if is_dict else None)
    refused = [one for one in findings if one.severity == "error"]
    if source is None or any(one.mark is None or one.mark.file == "--set" for one in refused):
        raise Refusal(*refused)
    return LoadedRecipe(file, merged_recipe(source), source, tuple(findings))


def validate(
    recipe: AnyRecipe, *, target: str | Stack | None = None, strict: bool = False, accept: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Every finding of a recipe, as `grpo-run validate` has them; () where there is nothing to say.

    target: a stack, as `--target` takes one, "tested,gpus=8xH100-80GB"; None is this machine. strict: what could not
    be checked is an error. accept: ids of rules whose errors are warnings.
    Raises Refusal as load, and for a target or an id that there is not.
    """
    return _resolved(recipe, target, strict, accept).findings


def plan(
    recipe: AnyRecipe, *, target: str | Stack | None = None, strict: bool = False, accept: Sequence[str] = ()
) -> Plan:
    """The plan of a recipe: every value with its origin and reason, as plan.json of a run folder holds it.

    Raises Refusal as validate, and with the findings of a recipe that has errors.
    """
    resolution = _resolved(recipe, target, strict, accept)
    if has_errors(resolution.findings):
        raise Refusal(*(one for one in resolution.findings if one.severity == "error"))
    return plan_of(resolution)


def runs(folder: str | os.PathLike[str] = "runs") -> list[dict[str, Any]]:
    """The runs of a folder, the newest first: the rows of `grpo-run runs FOLDER --json`.

    Each has name, folder, status, because, step, max_steps, reward, before, after, seconds, at, verdict, which is what
    a completed run means, and under `values` the planned values in which these runs differ. Raises Refusal for a folder
    that cannot be listed.
    """
    from grpo_recipes.report.runs.run_row import read_runs
    from grpo_recipes.report.runs.runs_text import differing, runs_json

    found = read_runs(os.fspath(folder))
    rows: list[dict[str, Any]] = json.loads(runs_json(found, found.runs, differing(found.runs)))["runs"]
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
    """What a run measured, a row for each step: metrics.jsonl of its run folder, also while it trains.

    event: step, or one of the others of that file: evaluation, guard, server, start, end. The columns are the names of
    TRL, such as reward, loss, kl, and `rewards/NAME/mean`; step counts from 1, time is Unix.
    frame: True gives a pandas.DataFrame, False a list of dicts, None the DataFrame where pandas is installed.
    Raises Refusal for a folder without metrics.jsonl, and for frame=True ImportError without pandas.
    """
    path = os.path.join(os.fspath(folder), METRICS_FILE)
    if not os.path.isfile(path):
        raise Refusal.of(
            f"{os.fspath(folder)}: nothing was measured there",
            because=f"it has no {METRICS_FILE}",
            fix="name a run folder whose run began to train",
        )
    rows = [{key: value for key, value in one.items() if key != "event"} for one in read_all(path) if _is(one, event)]
    if frame is False:
        return rows
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return rows
    return pandas.DataFrame(rows)


def _is(one: Mapping[str, object], event: str) -> bool:
    return one.get("event", "step") == event


def _resolved(recipe: AnyRecipe, target: str | Stack | None, strict: bool, accept: Sequence[str]) -> Resolution:
    from grpo_recipes.cli.options import chosen_stack
    from grpo_recipes.cli.resolving import judged

    loaded = load(recipe)
    if not isinstance(target, Stack | str | None):
        raise Refusal.of(f"a target is no {type(target).__name__}", fix='text: "tested,gpus=8xH100-80GB"')

    stack = target if isinstance(target, Stack) else chosen_stack(target)
    accept = (accept,) if isinstance(accept, str) else accept
    return judged(resolve_source(loaded.source, stack, loaded.reading), strict=strict, accepted=accept)


def _as_json(key: str, value: object) -> str:
    """A value as `--set` reads it."""
    try:
        return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise Refusal.of(
            f"{key}: {value!r} is no value of a recipe",
            because=str(problem),
            fix="text, finite numbers, booleans, None, lists and dicts of them",
        ) from None


def _as_yaml(recipe: object) -> str:
    try:
        return yaml.safe_dump(dict(recipe), sort_keys=False)  # type: ignore[call-overload]
    except yaml.representer.RepresenterError as problem:
        raise Refusal.of(
            "the recipe holds a value that YAML has no word for",
            because=str(problem.args[-1]) if problem.args else str(problem),
            fix="text, numbers, booleans, None, lists and dicts of them",
        ) from None
