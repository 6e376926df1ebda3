"""The keys of the format by name, read from the models: for messages, `explain` and the resolver."""

from collections.abc import Mapping
from functools import cache
from typing import get_args

from pydantic import BaseModel

from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import written_fields

OF_ITEMS = ("rewards.", "tools.", "preflight.turns.")
"""How the keys of an item of a list begin; they belong to no other place."""


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


@cache
def recipe_keys() -> tuple[str, ...]:
    """Every key of the format in dots, "grpo.beta"; sections themselves are included."""
    keys: list[str] = list(Recipe.model_fields)
    for section, model in sections().items():
        if section:
            keys.extend(f"{section}.{name}" for name in written_fields(model))
    return tuple(keys)


@cache
def keys_named(name: str) -> tuple[str, ...]:
    """The full keys whose last part is this name: beta -> ("grpo.beta",)."""
    return tuple(key for key in recipe_keys() if key.rpartition(".")[2] == name)


def is_of_an_item(path: tuple[str | int, ...], name: str) -> bool:
    """Whether a key says of an item of a list what the top level says of a recipe: its name, what it is for."""
    return any(isinstance(part, int) for part in path) and name in recipe_keys() and name not in sections()
