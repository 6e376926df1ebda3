"""Writes out the release's defaults that differ from the format's, and refuses values that no recipe can keep.

A recipe means the same on every release and machine, so defaults are written where format 1 has different ones.
"""

import math
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from grpo_recipes.facts.classified import ClassifiedField, classified_fields, matters
from grpo_recipes.facts.expression import NotExpressed, expression
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.facts.source.field import NoDefault
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.takeover.basis.context import Situation, format_value
from grpo_recipes.takeover.basis.release import Release, default_of, is_same, release_of
from grpo_recipes.takeover.basis.write import tree_of
from grpo_recipes.takeover.sections.model import mixes_experts
from grpo_recipes.yaml.page import find_forbidden

# The batch is written from all its parts at once.
BATCH = frozenset({"per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"})
BATCH |= {"steps_per_generation"}
MOVED = ("beta", "loss_type", "scale_rewards", "temperature", "max_completion_length", "use_bias_correction_kl")
# A dense model has no such loss in any release; trl since 1.14 raises if it is requested.
ROUTER_LOSS = "router_aux_loss_coef"


def write_defaults(situation: Situation) -> None:
    """Writes every default of the release that belongs to the experiment, or has a key, and differs from format 1's."""
    draft, release = situation.draft, situation.release
    values = values_so_far(situation)
    for name, field in classified_fields().items():
        if not _is_pinned(field) or name in BATCH or _where(field) in draft.values:
            continue
        if field.kind != "experiment" and name not in release.fields and not matters(field, values):
            continue
        default = default_of(field, release, values)
        if isinstance(default, NoDefault) or is_same(default, _format(field)):
            continue
        values[name] = default
        if matters(field, values) and (name != ROUTER_LOSS or mixes_experts(situation)):
            draft.put(_where(field), default, f"the default of trl {release.trl}")


def _where(field: ClassifiedField) -> str:
    return field.home or f"trl.{field.name}"


def _is_pinned(field: ClassifiedField) -> bool:
    return field.kind == "experiment" if field.has_value else bool(field.home) and field.kind != "bookkeeping"


def _format(field: ClassifiedField) -> object:
    return format_value(field.home) if field.home else field.value


def values_so_far(situation: Situation) -> dict[str, object]:
    """GRPOConfig values by name: from the recipe so far, else from the release, else from the format."""
    written, rewards = situation.draft.values, situation.draft.values.get("rewards")
    values: dict[str, object] = {"rewards": len(rewards) if isinstance(rewards, list) else 1}
    values["processes"] = situation.processes
    for name, field in classified_fields().items():
        if _where(field) in written:
            values[name] = written[_where(field)]
        elif field.home or field.has_value:
            values[name] = _format(field)
    for name in ("use_vllm", "beta", "loss_type", "fp16"):
        field = classified_fields()[name]
        if field.home not in written:
            values[name] = default_of(field, situation.release, values)
    return values


def disagreements(names: Iterable[str], release: Release) -> dict[str, str]:
    """Experiment defaults on which the releases that take these keys disagree: field -> each value and its first
    release.

    Only keys missing from the configuration count.
    """
    asked = set(names)
    fields = {name: field for name, field in classified_fields().items() if name in {*MOVED, "use_vllm"}}
    spans: dict[str, list[tuple[object, str]]] = {name: [] for name in MOVED if name not in asked}
    for version in releases_with_facts("trl"):
        other = release_of(version, release)
        if other is None or not asked & release.fields.keys() <= other.fields.keys():
            continue
        for name, values in spans.items():
            start = {key: _format(fields[key]) for key in ("use_vllm", "beta", "loss_type", name)}
            value = default_of(fields[name], other, start)
            if not values or not is_same(values[-1][0], value):
                values.append((value, version))
    texts = {name: [f"{value} from {version}" for value, version in values] for name, values in spans.items()}
    return {name: ", ".join(parts) for name, parts in texts.items() if len(parts) > 1}


NEEDED: dict[str, object] = {"model.model_name_or_path": "owner/model", "dataset.path": "owner/dataset"}
GENERATIONS, ALONE = "grpo.num_generations", "a group of one has no advantage: nothing is learned from its completion"
NEEDED |= {"rewards": [{"python": "rewards.py:reward"}]}
UNWRITABLE = "a recipe cannot have control characters, or numbers beyond 64 bits"


def refuse_what_cannot_be_kept(situation: Situation) -> None:
    """Refuses each value that a recipe cannot have, or that the release does not treat as it says."""
    values = situation.draft.values
    _what_is_done_otherwise(situation)
    for where in [where for where, value in values.items() if not _can_be_written(value)]:
        situation.settle(where, where, "refused", UNWRITABLE)
        del values[where]
        values |= {key: value for key, value in NEEDED.items() if key == where}
    _what_a_recipe_cannot_have(situation)


def _can_be_written(value: object) -> bool:
    """Whether the strict reader accepts the texts and numbers in a value."""
    if isinstance(value, Mapping):
        return all(_can_be_written(part) for entry in value.items() for part in entry)
    if isinstance(value, list | tuple):
        return all(map(_can_be_written, value))
    if isinstance(value, int | float):
        return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
    return not isinstance(value, str) or find_forbidden(value) is None


def _what_a_recipe_cannot_have(situation: Situation) -> None:
    """Refuses values outside the format's ranges and words."""
    written = situation.draft.values
    lists = {name: written.get(name, []) for name in ("rewards", "datasets")}
    try:
        Recipe.model_validate({"recipe": 1, "name": "checked", **tree_of(situation.draft), **lists})
    except ValidationError as problem:
        for error in problem.errors():
            where = ".".join(map(str, error["loc"][:2]))
            if where in written:
                is_alone = where == GENERATIONS and error["input"] == 1
                because = ALONE if is_alone else f"{where} cannot be {error['input']!r}: {error['msg']}"
                situation.settle(where, where, "refused", because)


def _what_is_done_otherwise(situation: Situation) -> None:
    """Refuses values that the release treats differently, unless a shim of the worker makes it do what they mean."""
    draft, values, target = situation.draft, values_so_far(situation), situation.release.target
    for name, field in classified_fields().items():
        where = _where(field)
        if where not in draft.values or field.kind != "experiment" or not matters(field, values):
            continue
        words = expression(field, draft.values[where], values, target)
        if not isinstance(words, NotExpressed):
            continue
        conditions = [condition for row in field.expressed for condition in row.get("when", ())]
        shims = [shim for key, _, shim in conditions if key == "shims"]
        with_shims = expression(field, draft.values[where], {**values, "shims": shims}, target)
        if shims and not isinstance(with_shims, NotExpressed):
            draft.comments[where] = f"{words.because}; grpo-run does what later releases do"
            situation.settle(name, where, "emulated", draft.comments[where])
        else:
            because = f"{words.because}; a recipe's {name} means the same on every release: choose its value"
            situation.settle(name, where, "refused", because)
