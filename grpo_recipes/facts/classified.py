"""Classifies the fields of GRPOConfig: experiment, machine or bookkeeping.

The table is `data/classified_fields.json`, in the order of GRPOConfig:
kind: experiment, machine or bookkeeping. home: the recipe key where a user writes it; its default is in the schema.
value: the value of format 1 for an experiment field without a home. owner: why a recipe cannot write the field, and
what to write instead. when: conditions under which the value matters, all of which must hold. expressed: how releases
behave that take the field differently, or not at all; see facts/expression.py.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["experiment", "machine", "bookkeeping"]
Condition = tuple[str, str, object]

TABLE = Path(__file__).parent / "data" / "classified_fields.json"


class ClassifiedField(NamedTuple):
    """One field of the table; has_value tells a format value of None from no format value."""

    name: str
    kind: Kind
    home: str | None
    owner: str | None
    value: object
    has_value: bool
    when: tuple[Condition, ...]
    expressed: tuple[Mapping[str, Any], ...] = ()


@cache
def classified_fields() -> Mapping[str, ClassifiedField]:
    """The table by field name, in the order of GRPOConfig."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: ClassifiedField(
            name=name,
            kind=row["kind"],
            home=row.get("home"),
            owner=row.get("owner"),
            value=row.get("value"),
            has_value="value" in row,
            when=tuple((field, operator, operand) for field, operator, operand in row.get("when", ())),
            expressed=tuple(row.get("expressed", ())),
        )
        for name, row in rows.items()
    }


@cache
def fields_by_home() -> Mapping[str, ClassifiedField]:
    """The fields that have a recipe key, by that key."""
    return {field.home: field for field in classified_fields().values() if field.home}


def _contains(text: object, part: object) -> bool:
    """Whether the text contains the part, or one of several parts."""
    parts = part if isinstance(part, list) else [part]
    return any(str(piece) in str(text) for piece in parts)


OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "==": lambda value, operand: value == operand,
    "!=": lambda value, operand: value != operand,
    ">": lambda value, operand: isinstance(value, int | float) and value > operand,  # type: ignore[operator]
    "<": lambda value, operand: isinstance(value, int | float) and value < operand,  # type: ignore[operator]
    "in": lambda value, operand: isinstance(operand, list) and value in operand,
    "contains": _contains,
}


def holds(conditions: Iterable[Condition], values: Mapping[str, object]) -> bool:
    """Whether all conditions hold for these values; an absent value is None."""
    return all(OPERATORS[operator](values.get(name), operand) for name, operator, operand in conditions)


def matters(field: ClassifiedField, values: Mapping[str, object]) -> bool:
    """Whether the field has an effect, given the GRPOConfig values (and `rewards`, their number)."""
    return holds(field.when, values)
