"""The values that releases of TRL, transformers and PEFT accept, for the schema of a recipe.

An editor knows no target, so it allows values of any known release, and marks those that none accepts.
"""

import json
from collections.abc import Iterator
from typing import Any

from grpo_recipes.facts.classified import ClassifiedField, classified_fields
from grpo_recipes.facts.released.history import SOURCES, Span, absent_after, absent_before, history
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.source.field import plain_types

AUTO = {"type": "string", "pattern": "^auto$"}
"""As a pattern, so that an editor does not offer it if no rule decides it."""
_JSON_TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "dict": "object",
    "list": "array",
}


def values_of_all_releases(owner: str, name: str) -> list[object] | None:
    """Every value that a known release accepts, the newest release's first; None if the newest accepts anything."""
    spans = history(owner, name)
    if not spans or spans[-1].allowed is None:
        return None
    values: list[object] = []
    for value in (value for span in reversed(spans) for value in span.allowed or ()):
        if not any(type(value) is type(known) and value == known for known in values):
            values.append(value)
    return values


def trl_properties() -> dict[str, dict[str, Any]]:
    """The fields that may stand under `trl:`, in the order of GRPOConfig."""
    free = [field for field in classified_fields().values() if not (field.home or field.owner)]
    return {field.name: _property(field) for field in free}


def _property(field: ClassifiedField) -> dict[str, Any]:
    """Null and auto are always allowed, as in validate."""
    values = values_of_all_releases("GRPOConfig", field.name)
    schema: dict[str, Any] = {"title": field.name, "description": _description(field)}
    if field.has_value:
        schema["default"] = field.value
    types = sorted(_types(field.name) or ())
    if values is not None:
        schema["anyOf"] = [{"enum": [*values, None]}, AUTO]
    elif types:
        branches = [{"type": _JSON_TYPES[kind]} for kind in types]
        schema["anyOf"] = [*branches, {"type": "null"}, *([] if "str" in types else [AUTO])]
    return schema


def _types(name: str) -> set[str] | None:
    """The plain types of all releases together, None if one of them has another type."""
    kinds: set[str] = set()
    for annotation in _annotations(name):
        plain = plain_types(annotation)
        if plain is None:
            return None
        kinds.update(plain)
    return kinds


def _annotations(name: str) -> Iterator[str]:
    for package, owner in SOURCES["GRPOConfig"]:
        for _, _, value in table(package)["owners"][owner]["fields"].get(name, ()):
            yield value["annotation"]


def _description(field: ClassifiedField) -> str:
    spans = history("GRPOConfig", field.name)
    parts = [table("field_help").get(field.name, "")]
    parts += [f"Matters only when {name} {operator} {json.dumps(value)}." for name, operator, value in field.when]
    if spans and (missing := _missing(spans)):
        parts.append(missing)
    if field.has_value:
        parts.append(f"Default: {json.dumps(field.value)}.")
    elif spans and spans[-1].default and "<" not in spans[-1].default:
        parts.append(f"Default: that of the release, {spans[-1].default} in {spans[-1].package} {spans[-1].last}.")
    return " ".join(part for part in parts if part)


def _missing(spans: list[Span]) -> str:
    """The releases that have the field, unless all have it."""
    first, last = spans[0], spans[-1]
    words = [f"since {first.package} {first.first}"] if absent_before(first) else []
    words += [f"up to {last.package} {last.last}"] if absent_after(last) else []
    return f"A field {' and '.join(words)}." if words else ""
