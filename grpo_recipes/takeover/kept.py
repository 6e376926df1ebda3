"""Values that no recipe can keep: their words mean one thing on every release and every machine."""

import math
from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from grpo_recipes.facts.classified import ClassifiedField, classified_fields, matters
from grpo_recipes.facts.expression import NotExpressed, expression
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.takeover.basis.draft import Fate, Row
from grpo_recipes.takeover.basis.release import Release
from grpo_recipes.takeover.basis.situation import Situation
from grpo_recipes.takeover.basis.write import tree_of
from grpo_recipes.takeover.defaults import known_values
from grpo_recipes.yaml.page import forbidden

NEEDED: dict[str, object] = {"model.model_name_or_path": "owner/model", "dataset.path": "owner/dataset"}
GENERATIONS, ALONE = "grpo.num_generations", "a group of one has no advantage: nothing is learned from its completion"
NEEDED |= {"rewards": [{"python": "rewards.py:reward"}]}


def refuse_what_cannot_be_kept(situation: Situation) -> None:
    """Refuses each value that is taken, and that a recipe cannot have, or that the release does something else with."""
    _what_is_done_otherwise(situation)
    _what_no_recipe_can_hold(situation)
    _what_a_recipe_cannot_have(situation)


def _what_no_recipe_can_hold(situation: Situation) -> None:
    """Texts with characters, and numbers, that the strict reader refuses."""
    values = situation.draft.values
    for where in [where for where, value in values.items() if not _can_be_written(value)]:
        because = "a recipe holds no control characters, and no numbers beyond 64 bits"
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
    """Values outside the format's own ranges and words."""
    values = {"recipe": 1, "name": "checked", **tree_of(situation.draft)}
    try:
        Recipe.model_validate({**values, "rewards": situation.draft.values["rewards"]})
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
            because = f"{said.because}; grpo-run does there what later releases do"
            _settle(situation, name, where, "emulated", because)
            draft.comments[where] = because
        else:
            because = f"{said.because}; a recipe's {name} means one thing on every release: choose its value"
            refuse(situation, name, where, because)


def _is_mended(field: ClassifiedField, value: object, values: Mapping[str, object], release: Release) -> bool:
    """Whether a shim of the worker has the release do what the value means."""
    conditions = [condition for row in field.expressed for condition in row.get("when", ())]
    shims = [operand for name, _, operand in conditions if name == "shims"]
    return bool(shims) and not isinstance(
        expression(field, value, {**values, "shims": shims}, release.target), NotExpressed
    )


def refuse(situation: Situation, name: str, where: str, because: str) -> None:
    """The row of a key becomes a refusal; the default of the release gets one."""
    _settle(situation, name, where, "refused", because)


def _settle(situation: Situation, name: str, where: str, fate: Fate, because: str) -> None:
    rows = situation.draft.rows
    for place, row in enumerate(rows):
        if row.where == (where,) and row.fate != "refused":
            rows[place] = replace(row, fate=fate, because=because)
            return
    key = f"{name} (the default of trl {situation.release.trl})"
    rows.append(Row(key, situation.draft.values[where], fate, (where,), because))
