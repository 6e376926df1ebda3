"""One field of a library's configuration class."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class NoDefault(StrEnum):
    """Why a field has no default that can be written down. The values are plain strings in JSON."""

    UNKNOWN = "<computed>"
    REQUIRED = "<required>"


UNKNOWN = NoDefault.UNKNOWN
REQUIRED = NoDefault.REQUIRED


class Field(NamedTuple):
    """A field that the constructor takes.

    annotation: its source text, "" when there is none. default: a JSON value; UNKNOWN when the class
    computes it; REQUIRED when there is none. allowed: the closed set that the package's own source accepts,
    None when open.
    """

    name: str
    annotation: str
    default: object
    allowed: tuple[object, ...] | None = None


def to_json_value(field: Field) -> dict[str, object]:
    """The field without its name; `allowed` only when it is closed."""
    value: dict[str, object] = {"annotation": field.annotation, "default": field.default}
    if field.allowed is not None:
        value["allowed"] = list(field.allowed)
    return value


def from_json_value(name: str, value: Mapping[str, object]) -> Field:
    """The field that `to_json_value` wrote. Raises KeyError or TypeError for another shape."""
    default, allowed = value["default"], value.get("allowed")
    if isinstance(default, str) and default in tuple(NoDefault):
        default = NoDefault(default)
    if allowed is not None and not isinstance(allowed, list):
        raise TypeError("allowed is a list")
    annotation = value["annotation"]
    if not isinstance(annotation, str):
        raise TypeError("annotation is a string")
    return Field(name, annotation, default, None if allowed is None else tuple(allowed))
