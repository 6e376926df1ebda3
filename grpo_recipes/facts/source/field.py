"""One field of a library's configuration class."""

import ast
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class NoDefault(StrEnum):
    """Why a field has no literal default. The values are plain strings in JSON."""

    UNKNOWN = "<computed>"
    REQUIRED = "<required>"


UNKNOWN = NoDefault.UNKNOWN
REQUIRED = NoDefault.REQUIRED


class Field(NamedTuple):
    """A field that the constructor takes.

    annotation: its source text, "" for none. default: a JSON value; UNKNOWN if the class computes it; REQUIRED without
    one. allowed: the closed set that the package's own source accepts, None if open.
    """

    name: str
    annotation: str
    default: object
    allowed: tuple[object, ...] | None = None


def to_json_value(field: Field) -> dict[str, object]:
    """The field without its name; `allowed` only if it is closed."""
    value: dict[str, object] = {"annotation": field.annotation, "default": field.default}
    if field.allowed is not None:
        value["allowed"] = list(field.allowed)
    return value


def from_json_value(name: str, value: Mapping[str, object]) -> Field:
    """The field that `to_json_value` wrote. Raises KeyError or TypeError for other content."""
    default, allowed = value["default"], value.get("allowed")
    if isinstance(default, str) and default in tuple(NoDefault):
        default = NoDefault(default)
    if allowed is not None and not isinstance(allowed, list):
        raise TypeError("allowed is a list")
    annotation = value["annotation"]
    if not isinstance(annotation, str):
        raise TypeError("annotation is a string")
    return Field(name, annotation, default, None if allowed is None else tuple(allowed))


PLAIN_TYPES = ("int", "float", "bool", "str", "dict", "list")
"""The types with an unambiguous annotation; anything richer is left to the library."""
_LOWER = ("Dict", "FrozenSet", "List", "Set", "Tuple", "Type")


def plain_annotation(node: ast.expr) -> str:
    """The annotation as the newest Python writes it, with None last: `Optional["List[int]"]` is `list[int] | None`.

    So a release that only respells a field does not change it.
    """
    return ast.unparse(_union(_members(node)))


def plain_types(annotation: str) -> list[str] | None:
    """The plain types of a union annotation besides None, None if it has other members."""
    parts = [part.strip().partition("[")[0] for part in annotation.split("|")]
    kinds = [part for part in parts if part != "None"]
    return kinds if kinds and all(kind in PLAIN_TYPES for kind in kinds) else None


def _members(node: ast.expr) -> list[ast.expr]:
    """The members of a union, each in its plain spelling."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _members(ast.parse(node.value, mode="eval").body)
        except SyntaxError:
            return [node]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_members(node.left), *_members(node.right)]
    if isinstance(node, ast.Subscript):
        name = last_name(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Optional":
            return [*_members(node.slice), ast.Constant(None)]
        if name == "Union":
            return [member for item in items for member in _members(item)]
        if name == "Literal":
            return [ast.Subscript(ast.Name("Literal"), node.slice)]
        inner = [_union(_members(item)) for item in items]
        return [ast.Subscript(_plain_name(node.value), inner[0] if len(inner) == 1 else ast.Tuple(inner))]
    if isinstance(node, ast.List):
        return [ast.List([_union(_members(item)) for item in node.elts])]
    return [_plain_name(node)]


def _union(members: list[ast.expr]) -> ast.expr:
    none = [member for member in members if isinstance(member, ast.Constant) and member.value is None]
    ordered = [*[member for member in members if member not in none], *none[:1]]
    joined = ordered[0]
    for member in ordered[1:]:
        joined = ast.BinOp(joined, ast.BitOr(), member)
    return joined


def _plain_name(node: ast.expr) -> ast.expr:
    name = last_name(node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("typing", "t"):
        return ast.Name(name.lower() if name in _LOWER else name)
    return ast.Name(name.lower()) if isinstance(node, ast.Name) and name in _LOWER else node


def last_name(node: ast.expr) -> str:
    """`a.b.Name` or `Name` -> "Name", "" for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
