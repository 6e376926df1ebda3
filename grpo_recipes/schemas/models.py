"""Looks up the models of the format's sections by name."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from grpo_recipes.schemas.fast_accept import SectionValues
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import written_fields, written_value


def section_model(annotation: object) -> type[BaseModel] | None:
    """The section's model behind an annotation: Lora for `Lora | None`, None for a plain value."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


@cache
def sections() -> Mapping[str, type[BaseModel]]:
    """Section name -> model; the top level is "", an item of `rewards` is "rewards", a section below "training.cut"."""
    found: dict[str, type[BaseModel]] = {"": Recipe}
    for name, field in Recipe.model_fields.items():
        model = section_model(field.annotation)
        if model is not None:
            found[name] = model
        else:
            inner = [one for arg in get_args(field.annotation) if (one := section_model(arg)) is not None]
            found |= {name: inner[0]} if inner else {}
    waiting = [name for name in found if name]
    while waiting:
        section = waiting.pop(0)
        below = {name: section_model(field.annotation) for name, field in written_fields(found[section]).items()}
        inside = {f"{section}.{name}": inner for name, inner in below.items() if inner is not None}
        found |= inside
        waiting += inside
    return found


def validated(values: Mapping[str, object]) -> SectionValues | Sequence[Mapping[str, Any]]:
    """The values of all keys, or Pydantic's errors."""
    try:
        return section_values(Recipe.model_validate(values))
    except ValidationError as error:
        details: Sequence[Mapping[str, Any]] = error.errors(include_url=False)
        return details


def section_values(section: BaseModel) -> SectionValues:
    """The values of a section and of those below it; an item of a list or a map is a plain dict."""
    keys = (*written_fields(type(section)), *(section.model_extra or ()))
    return SectionValues({key: _values(written_value(section, key)) for key in keys})


def _values(value: object) -> object:
    if isinstance(value, BaseModel):
        return section_values(value)
    if isinstance(value, dict):
        return {key: _item(item) for key, item in value.items()}
    return [_item(item) for item in value] if isinstance(value, list) else value


def _item(value: object) -> object:
    return dict(section_values(value)) if isinstance(value, BaseModel) else value
