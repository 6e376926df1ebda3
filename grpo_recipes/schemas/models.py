"""The models of the format's sections, by name."""

from collections.abc import Mapping
from functools import cache
from typing import get_args

from pydantic import BaseModel

from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import written_fields


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
    for section, model in list(found.items()):
        below = {name: section_model(field.annotation) for name, field in written_fields(model).items() if section}
        found |= {f"{section}.{name}": inner for name, inner in below.items() if inner is not None}
    return found
