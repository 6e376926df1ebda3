"""Writes out the release's defaults that differ from the format's, and refuses values that no recipe can keep.

A recipe means the same on every release and machine, so defaults are written where format 1 has different ones.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import ValidationError

from grpo_recipes.facts.classified import ClassifiedField, classified_fields, matters
from grpo_recipes.facts.expression import NotExpressed, expression
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.facts.source.field import NoDefault
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.takeover.basis.context import Situation, format_value
from grpo_recipes.takeover.basis.draft import Fate, Row
from grpo_recipes.takeover.basis.release import Release, default_of, is_same, release_of
from grpo_recipes.takeover.basis.write import tree_of
from grpo_recipes.takeover.sections.model import mixes_experts
from grpo_recipes.yaml.page import forbidden

# The batch is written from all its parts at once.
BATCH = frozenset({"per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"})
BATCH |= {"steps_per_generation"}
MOVED = ("beta", "loss_type", "scale_rewards", "temperature", "max_completion_length", "use_bias_correction_kl")
# A dense model has no such loss in any release; trl since 1.14 raises if it is requested.
ROUTER_LOSS = "router_aux_loss_coef"


def write_defaults(situation: Situation) -> None:
    """Writes every default of the release that belongs to the experiment, or has a key, and differs from format 1's."""
    draft, release = situation.draft, situation.release
    values = known_values(situation)
    for name, field in classified_fields().items():
        where = field.home or f"trl.{name}"
        if not _is_pinned(field) or name in BATCH or where in draft.values:
            continue
        if field.kind != "experiment" and name not in release.fields and not matters(field, values):
            continue
        default = default_of(field, release, values)
        if isinstance(default, NoDefault) or is_same(default, _format(field)):
            continue
        values[name] = default
        if name == ROUTER_LOSS and not mixes_experts(situation):
            continue
        if matters(field, values):
            draft.put(where, default, f"the default of trl {release.trl}")


def _is_pinned(field: ClassifiedField) -> bool:
    return field.kind == "experiment" if field.has_value else bool(field.home) and field.kind != "bookkeeping"


def _format(field: ClassifiedField) -> object:
    return format_value(field.home) if field.home else field.value


def known_values(situation: Situation) -> dict[str, object]:
    """GRPOConfig values by name: from the recipe so far, else from the release, else from the format."""
    draft, release = situation.draft, situation.release
    rewards = draft.values.get("rewards")
    values: dict[str, object] = {"rewards": len(rewards) if isinstance(rewards, list) else 1}
    values["processes"] = situation.processes
    for name, field in classified_fields().items():
        where = field.home or f"trl.{name}"
        if where in draft.values:
            values[name] = draft.values[where]
        elif field.home or field.has_value:
            values[name] = _format(field)
    for name in ("use_vllm", "beta", "loss_type", "fp16"):
        field = classified_fields()[name]
        if field.home not in draft.values:
            values[name] = default_of(field, release, values)
    return values


def disagreements(names: Iterable[str], written: Mapping[str, object], release: Release) -> dict[str, str]:
    """Experiment defaults on which the releases that take these keys disagree: field -> each value and its first
    release.

    written: the recipe's values. Only keys missing from the configuration count.
    """
    asked = set(names)
    said: dict[str, list[tuple[str, object]]] = {}
    for version in releases_with_facts("trl"):
        other = release_of(version, release)
        if other is None or not {name for name in asked if name in release.fields} <= set(other.fields):
            continue
        for name in MOVED:
            if name in asked:
                continue
            field = classified_fields()[name]
            start = {one: _format(classified_fields()[one]) for one in ("use_vllm", "beta", "loss_type", name)}
            value = default_of(field, other, start)
            spans = said.setdefault(name, [])
            if not spans or not is_same(spans[-1][1], value):
                spans.append((version, value))
    return {name: _spans_text(spans) for name, spans in said.items() if len(spans) > 1}


def _spans_text(spans: list[tuple[str, object]]) -> str:
    return ", ".join(f"{value} from {version}" for version, value in spans)


# Values that no recipe can keep.


NEEDED: dict[str, object] = {"model.model_name_or_path": "owner/model", "dataset.path": "owner/dataset"}
GENERATIONS, ALONE = "grpo.num_generations", "a group of one has no advantage: nothing is learned from its completion"
NEEDED |= {"rewards": [{"python": "rewards.py:reward"}]}


def refuse_what_cannot_be_kept(situation: Situation) -> None:
    """Refuses each value that a recipe cannot have, or that the release does not treat as it says."""
    _what_is_done_otherwise(situation)
    _what_no_recipe_can_hold(situation)
    _what_a_recipe_cannot_have(situation)


def _what_no_recipe_can_hold(situation: Situation) -> None:
    """Refuses texts with characters, and numbers, that the strict reader does not accept."""
    values = situation.draft.values
    for where in [where for where, value in values.items() if not _can_be_written(value)]:
        because = "a recipe cannot have control characters, or numbers beyond 64 bits"
        refuse(situation, where, where, because)
        if where in NEEDED:
            values[where] = NEEDED[where]
        else:
            del values[where]


def _can_be_written(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_can_be_written(one) for entry in value.items() for one in entry)
    if isinstance(value, list | tuple):
        return all(_can_be_written(one) for one in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return not isinstance(value, str) or forbidden(value) is None


def _what_a_recipe_cannot_have(situation: Situation) -> None:
    """Refuses values outside the format's ranges and words."""
    values = {"recipe": 1, "name": "checked", **tree_of(situation.draft)}
    try:
        lists = {name: situation.draft.values.get(name, []) for name in ("rewards", "datasets")}
        Recipe.model_validate({**values, **lists})
    except ValidationError as problem:
        for error in problem.errors():
            where = ".".join(str(part) for part in error["loc"][:2])
            if where in situation.draft.values:
                is_alone = where == GENERATIONS and error["input"] == 1
                because = ALONE if is_alone else f"{where} cannot be {error['input']!r}: {error['msg']}"
                refuse(situation, where, where, because)


def _what_is_done_otherwise(situation: Situation) -> None:
    draft = situation.draft
    values = known_values(situation)
    for name, field in classified_fields().items():
        where = field.home or f"trl.{name}"
        if where not in draft.values or field.kind != "experiment" or not matters(field, values):
            continue
        said = expression(field, draft.values[where], values, situation.release.target)
        if not isinstance(said, NotExpressed):
            continue
        if _is_mended(field, draft.values[where], values, situation.release):
            because = f"{said.because}; grpo-run does what later releases do"
            _settle(situation, name, where, "emulated", because)
            draft.comments[where] = because
        else:
            because = f"{said.because}; a recipe's {name} means the same on every release: choose its value"
            refuse(situation, name, where, because)


def _is_mended(field: ClassifiedField, value: object, values: Mapping[str, object], release: Release) -> bool:
    """Whether a shim of the worker makes the release do what the value means."""
    conditions = [condition for row in field.expressed for condition in row.get("when", ())]
    shims = [operand for name, _, operand in conditions if name == "shims"]
    return bool(shims) and not isinstance(
        expression(field, value, {**values, "shims": shims}, release.target), NotExpressed
    )


def refuse(situation: Situation, name: str, where: str, because: str) -> None:
    """Turns the row of a key into a refusal; a default of the release gets a row."""
    _settle(situation, name, where, "refused", because)


def _settle(situation: Situation, name: str, where: str, fate: Fate, because: str) -> None:
    rows = situation.draft.rows
    for index, row in enumerate(rows):
        if row.where == (where,) and row.fate != "refused":
            rows[index] = replace(row, fate=fate, because=because)
            return
    key = f"{name} (the default of trl {situation.release.trl})"
    rows.append(Row(key, situation.draft.values[where], fate, (where,), because))
