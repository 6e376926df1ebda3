"""Accepts a recipe whose values are all plainly valid, without importing Pydantic, the slowest part of a check.

`format.json` holds the models of this folder as one JSON Schema; `make schemas` generates it, and refuses a keyword of
JSON Schema that this module does not read. A recipe that fits it gets the same values as from the models. The models
check any other recipe, and report what is wrong.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("format.json")
Form = Mapping[str, Any]


class SectionValues(dict[str, object]):
    """The values of a section by the recipe's keys, defaults included; any other dict in it is a value."""


class _LeftToModels(Exception):
    """A value that the models have to check."""


@cache
def format_table() -> Form:
    """Reads format.json. sections: name -> its form's name, in the models' order; forms: name -> JSON Schema."""
    table: Form = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def accept(values: Mapping[str, object]) -> SectionValues | None:
    """The values of all keys if a recipe is plainly valid, None if the models have to check it."""
    try:
        return _section(values, format_table()["forms"][format_table()["sections"][""]])
    except _LeftToModels:
        return None


def _section(values: object, form: Form) -> SectionValues:
    """A required key that is null is left to the models; an extra key of an open section is a value."""
    if type(values) is not dict:
        raise _LeftToModels
    properties, required = form["properties"], form.get("required", ())
    if any(values.get(key) is None for key in required):
        raise _LeftToModels
    section = SectionValues()
    for key, key_form in properties.items():
        section[key] = _fitting(values[key], key_form) if key in values else _default(key_form)
    for key, value in values.items():
        if key not in properties:
            if form["additionalProperties"] is not True or type(key) is not str:
                raise _LeftToModels
            section[key] = value
    return section


def _default(form: Form) -> object:
    return _section({}, _follow_reference(form)) if "$ref" in form else _copy(form["default"])


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _follow_reference(form: Form) -> Form:
    referred: Form = format_table()["forms"][form["$ref"]]
    return referred


def _fitting(value: object, form: Form) -> object:
    """The value as the models would read it. Raises _LeftToModels if it does not fit the form."""
    if "$ref" in form:
        return _section(value, _follow_reference(form))
    if "anyOf" in form:
        return _fitting_one(value, form["anyOf"])
    one_of = form["enum"] if "enum" in form else [form["const"]] if "const" in form else None
    if one_of is not None:
        if not any(type(value) is type(constant) and value == constant for constant in one_of):
            raise _LeftToModels
        return value
    return _OF_TYPE[form["type"]](value, form) if "type" in form else value


def _fitting_one(value: object, forms: list[Form]) -> object:
    """The value by the first form that it fits; a whole number stays an integer if possible."""
    for form in sorted(forms, key=lambda form: form.get("type") == "number"):
        try:
            return _fitting(value, form)
        except _LeftToModels:
            continue
    raise _LeftToModels


def _text(value: object, form: Form) -> object:
    if type(value) is not str or len(value) < form.get("minLength", 0):
        raise _LeftToModels
    if not value.isascii() and ("pattern" in form or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise _LeftToModels
    if "pattern" in form and ("\n" in value or not re.search(form["pattern"], value)):
        raise _LeftToModels  # $ in Python's patterns also matches before a final line break
    return value


def _whole_number(value: object, form: Form) -> object:
    if type(value) is not int:
        raise _LeftToModels
    return _within(value, form)


def _number(value: object, form: Form) -> object:
    if type(value) is int and abs(value) < 2**53:
        return _within(float(value), form)
    if type(value) is not float or not math.isfinite(value):
        raise _LeftToModels
    return _within(value, form)


def _within(value: float, form: Form) -> float:
    if value < form.get("minimum", value) or value > form.get("maximum", value):
        raise _LeftToModels
    if value <= form.get("exclusiveMinimum", -math.inf) or value >= form.get("exclusiveMaximum", math.inf):
        raise _LeftToModels
    return value


def _list(value: object, form: Form) -> object:
    if type(value) is not list or not form.get("minItems", 0) <= len(value) <= form.get("maxItems", len(value)):
        raise _LeftToModels
    return [_item(item, form["items"]) for item in value]


def _item(value: object, form: Form) -> object:
    fitting = _fitting(value, form)
    return dict(fitting) if isinstance(fitting, SectionValues) else fitting


def _map(value: object, form: Form) -> object:
    if type(value) is not dict or any(type(key) is not str for key in value):
        raise _LeftToModels
    each = form["additionalProperties"]
    return dict(value) if each is True else {key: _item(item, each) for key, item in value.items()}


def _of(kind: type) -> Callable[[object, Form], object]:
    def exactly(value: object, form: Form) -> object:
        if type(value) is not kind:
            raise _LeftToModels
        return value

    return exactly


_OF_TYPE: Mapping[str, Callable[[object, Form], object]] = {
    "array": _list,
    "boolean": _of(bool),
    "integer": _whole_number,
    "null": _of(type(None)),
    "number": _number,
    "object": _map,
    "string": _text,
}

OF_ITEMS = ("datasets.", "rewards.", "tools.", "preflight.turns.", "evaluation.sets.")
"""Prefixes of the keys of items of a list or a map."""


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
