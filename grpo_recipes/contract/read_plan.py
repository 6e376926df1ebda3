"""Reads plan.json strictly: every key of the plan's classes with its type; used by grpo-run and the worker."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.plan import PLAN_FORMAT, Plan

Section = TypeVar("Section")


class NotAPlan(ValueError):
    """A JSON text is not a plan as `to_json` writes it; the message names the key."""


def from_json(text: str) -> Plan:
    """The plan that `to_json` wrote, in this or an older release of the same format. Raises ValueError."""
    return plan_of(parse_json(text.encode("utf-8", "surrogatepass")), complete=False)


def plan_of(content: object, *, complete: bool = True) -> Plan:
    """The plan in a JSON text; unknown keys are ignored.

    complete: require every key. Otherwise a key that an older release did not write gets its default. Raises NotAPlan.
    """
    if not isinstance(content, dict) or content.get("plan") != PLAN_FORMAT:
        version = content.get("plan") if isinstance(content, dict) else None
        raise NotAPlan(f"it has plan format {version}, this grpo-run reads {PLAN_FORMAT}")
    return _section(Plan, content, "", complete)


def section_of(kind: type[Section], content: object, where: str) -> Section:
    """A part of a plan that the plan itself does not type, such as an engine's section. Raises NotAPlan."""
    return _section(kind, content, where, complete=False)


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _section(kind: type[Section], content: object, where: str, complete: bool) -> Section:
    if not isinstance(content, dict):
        raise NotAPlan(f"{where} is not a mapping")
    kinds, defaults = _types(kind), _defaults(kind)  # type: ignore[arg-type]
    missing = [
        f"{where}.{name}".lstrip(".") for name in kinds if name not in content and (complete or name not in defaults)
    ]
    if missing:
        raise NotAPlan(f"it lacks {', '.join(missing)}")
    return kind(
        **{
            name: _value(kinds[name], content[name], f"{where}.{name}".lstrip("."), complete)
            for name in kinds
            if name in content
        }
    )


@cache
def _defaults(kind: Any) -> frozenset[str]:
    """The fields of a dataclass or NamedTuple that have a default."""
    if not dataclasses.is_dataclass(kind):
        return frozenset(kind._field_defaults)
    none = dataclasses.MISSING
    return frozenset(
        field.name for field in dataclasses.fields(kind) if (field.default, field.default_factory) != (none, none)
    )


def _value(kind: Any, content: Any, where: str, complete: bool) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is object:
        return content
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_field_defaults")):
        return _section(kind, content, where, complete)
    if origin is Literal and isinstance(content, str) and content in inner:
        return content
    if origin in (Union, types.UnionType):
        return None if content is None and type(None) in inner else _one_of(inner, content, where, complete)
    if origin is tuple and isinstance(content, list):
        return tuple(_value(inner[0], part, f"{where}[{index}]", complete) for index, part in enumerate(content))
    if origin in (dict, Mapping) and isinstance(content, dict):
        return {str(key): _value(inner[1], part, f"{where}.{key}", complete) for key, part in content.items()}
    if kind is float and type(content) is int:
        return float(content)
    if isinstance(kind, type) and type(content) is kind:
        return content
    raise NotAPlan(f"{where} is {content!r:.80}")


def _one_of(kinds: tuple[Any, ...], content: Any, where: str, complete: bool) -> Any:
    """The value as the one of several types that it fits; the error of that type if there is only one."""
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    for kind in kinds[:-1]:
        try:
            return _value(kind, content, where, complete)
        except NotAPlan:
            continue
    return _value(kinds[-1], content, where, complete)
