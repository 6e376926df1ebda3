"""Checks a recipe with the models: returns its values, or the errors."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from grpo_recipes.schemas.accepted import SectionValues
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import written_fields, written_value


def validated(values: Mapping[str, object]) -> SectionValues | Sequence[Mapping[str, Any]]:
    """The values of all keys, or Pydantic's errors."""
    try:
        return section_values(Recipe.model_validate(values))
    except ValidationError as error:
        details: Sequence[Mapping[str, Any]] = error.errors(include_url=False)
        return details


def section_values(section: BaseModel) -> SectionValues:
    """The values of a section and of those below it; an item of a list is a plain dict."""
    keys = (*written_fields(type(section)), *(section.model_extra or ()))
    return SectionValues({key: _values(written_value(section, key)) for key in keys})


def _values(value: object) -> object:
    if isinstance(value, BaseModel):
        return section_values(value)
    return [_item(item) for item in value] if isinstance(value, list) else value


def _item(value: object) -> object:
    return dict(section_values(value)) if isinstance(value, BaseModel) else value
