"""Looks up the models of the format's sections by name."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from grpo_recipes.schemas.fast_accept import SectionValues
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import fields_by_key, value_of_key


def section_model(annotation: object) -> type[BaseModel] | None:
    """The section's model behind an annotation: Lora for `Lora | None`, None for a plain value."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


@cache
def sections() -> Mapping[str, type[BaseModel]]:
    """Section name -> model; the top level is "", an item of `rewards` is "rewards", a section below "training.cut"."""
    models: dict[str, type[BaseModel]] = {"": Recipe}
    for name, field in Recipe.model_fields.items():
        model = section_model(field.annotation)
        if model is not None:
            models[name] = model
        else:
            inner = list(filter(None, map(section_model, get_args(field.annotation))))
            models |= {name: inner[0]} if inner else {}
    waiting = [name for name in models if name]
    while waiting:
        section = waiting.pop(0)
        below = {name: section_model(field.annotation) for name, field in fields_by_key(models[section]).items()}
        inside = {f"{section}.{name}": inner for name, inner in below.items() if inner is not None}
        models |= inside
        waiting += inside
    return models


def is_switched_by_being_written(section: str) -> bool:
    """Whether a section is on if a recipe has it, and off without it, such as `lora`."""
    field = Recipe.model_fields.get(section)
    return field is not None and field.annotation is not None and field.default is None and not field.is_required()


def validate_recipe(values: Mapping[str, object]) -> SectionValues | Sequence[Mapping[str, Any]]:
    """The values of all keys, or Pydantic's errors."""
    try:
        return section_values(Recipe.model_validate(values))
    except ValidationError as error:
        details: Sequence[Mapping[str, Any]] = error.errors(include_url=False)
        return details


def section_values(section: BaseModel) -> SectionValues:
    """The values of a section and of those below it; an item of a list or a map is a plain dict."""
    keys = (*fields_by_key(type(section)), *(section.model_extra or ()))
    return SectionValues({key: _values(value_of_key(section, key)) for key in keys})


def _values(value: object) -> object:
    if isinstance(value, BaseModel):
        return section_values(value)
    if isinstance(value, dict):
        return {key: _item(item) for key, item in value.items()}
    return [_item(item) for item in value] if isinstance(value, list) else value


def _item(value: object) -> object:
    return dict(section_values(value)) if isinstance(value, BaseModel) else value
