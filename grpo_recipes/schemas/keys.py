"""The keys of the format by name: for messages, `explain` and the resolver."""

from collections.abc import Mapping
from functools import cache

from grpo_recipes.schemas.accepted import format_table

OF_ITEMS = ("rewards.", "tools.", "preflight.turns.")
"""Prefixes of the keys of list items."""


@cache
def section_keys() -> Mapping[str, tuple[str, ...]]:
    """Section name -> its keys; the names are those of `grpo_recipes.schemas.models.sections`."""
    table = format_table()
    return {name: tuple(table["forms"][form]["properties"]) for name, form in table["sections"].items()}


@cache
def recipe_keys() -> tuple[str, ...]:
    """Every key of the format in dots, "grpo.beta"; sections themselves are included."""
    below = (f"{section}.{name}" for section, names in section_keys().items() if section for name in names)
    return (*section_keys()[""], *below)


@cache
def keys_named(name: str) -> tuple[str, ...]:
    """The full keys whose last part is this name: beta -> ("grpo.beta",)."""
    return tuple(key for key in recipe_keys() if key.rpartition(".")[2] == name)


def is_of_an_item(path: tuple[str | int, ...], name: str) -> bool:
    """Whether a key of a list item has the meaning of a top-level key: a name or a description."""
    return any(isinstance(part, int) for part in path) and name in recipe_keys() and name not in section_keys()
