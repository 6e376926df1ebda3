"""Values that no recipe can keep: their words mean one thing on every release and every machine."""

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

GENERATIONS, ALONE = "grpo.num_generations", "a group of one has no advantage: nothing is learned from its completion"


def refuse_what_cannot_be_kept(situation: Situation) -> None:
    """Refuses each value that is taken, and that a recipe cannot have, or that the release does something else with."""
    _what_is_done_otherwise(situation)
    _what_a_recipe_cannot_have(situation)


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
