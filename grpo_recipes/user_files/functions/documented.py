"""Reads the functions of a Python file with their docstrings from source, without running it."""

import ast
import builtins
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, Parameter, definition, parameters_of
from grpo_recipes.user_files.returned_values import own_nodes

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Documented(NamedTuple):
    """A function. text: its docstring as Python's inspect cleans it, None without one. hints: of its file."""

    name: str
    line: int
    text: str | None
    parameters: tuple[Parameter, ...]
    is_async: bool
    is_decorated: bool
    yields: bool
    hints: "Hints"

    def unsaid(self, parameter: Parameter) -> str | None:
        """Why a parameter's type hint cannot be described to a model; None if it can, or may."""
        try:
            return None if parameter.hint is None else self.hints.unsaid(parameter.hint)
        except RecursionError:  # a union of a thousand types
            return None


def read_function(path: str, name: str) -> Documented | None:
    """The function that a name of a Python file refers to, None for anything else or if it cannot be read.

    Raises OSError, and SyntaxError or ValueError for invalid Python source.
    """
    target = definition(path, name)
    if not isinstance(target, Definition) or not isinstance(target.node, _Function):
        return None
    return documentation_of(target.node, hints_of(target.tree))._replace(name=name)


@lru_cache(maxsize=16)
def hints_of(tree: ast.Module) -> "Hints":
    """The names of a file that type hints may use, cached since several rules need the same file."""
    return Hints(tree)


def documentation_of(node: _Function, hints: "Hints") -> Documented:
    """The documentation of a function in a file with these names."""
    return Documented(
        name=node.name,
        line=node.lineno,
        text=ast.get_docstring(node),
        parameters=parameters_of(node.args),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        is_decorated=bool(node.decorator_list),
        yields=any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in own_nodes(node.body)),
        hints=hints,
    )


# What a docstring tells a model, as parse_google_format_docstring of transformers reads it, line by line.
#
# Its patterns retry every run of spaces from each of its characters, which never ends for a long docstring.


_MARK = "Args:|Returns:|Raises:"
_END = "Returns:|Raises:"
_ARGUMENT = r"([ \t]*)(\w+):"
_TYPED_ARGUMENT = r"([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?:"
_CHOICES = r"(?i)\(choices:"


def description(text: str) -> str:
    """The part of a docstring before its first section."""
    text = text.strip()
    section = re.search(_MARK, text)
    return (text if section is None else text[: section.start()]).strip()


def argument_texts(text: str, *, reads_types: bool) -> Mapping[str, str]:
    """The text about each argument in a docstring, by name. reads_types: of `name (type): ...` too.

    An argument that is indented deeper belongs to the previous one, as does the line after an argument without a text.
    """
    texts: dict[str, list[str]] = {}
    parts: list[str] | None = None
    indent, takes_next = "", False
    argument = _TYPED_ARGUMENT if reads_types else _ARGUMENT
    for line in _block(text.strip()).split("\n"):
        if not line.strip():
            continue
        start = None if takes_next else re.match(argument, line)
        if start is not None and (parts is None or not line.startswith((f"{indent} ", f"{indent}\t"))):
            indent, rest = start[1], line[start.end() :].strip()
            parts = texts[start[2]] = [rest] if rest else []
            takes_next = not rest
        elif parts is not None:
            parts.append(line.strip())
            takes_next = False
    return {name: " ".join(lines) for name, lines in texts.items()}


def _block(text: str) -> str:
    """The lines below `Args:`, which must be on a separate line that is neither the first nor the last."""
    lines = text.split("\n")
    start = next((index for index in range(1, len(lines) - 1) if lines[index].lstrip() == "Args:"), None)
    return "" if start is None else re.split(_END, "\n".join(lines[start + 1 :]), maxsplit=1)[0]


def choices_not_read(text: str) -> str | None:
    """The choices at the end of an argument's text if they are not a JSON list; None if they are, or there are none."""
    choices = re.search(_CHOICES, text)
    if choices is None or not text.rstrip().endswith(")"):
        return None
    written = text[choices.end() :].strip().removesuffix(")").strip()
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return None if isinstance(value, list | dict | str) else written


TAKEN = frozenset({"int", "float", "str", "bool", "list", "tuple", "dict", "Any", "None"})
"""Types that transformers converts to a JSON schema, as it does Enum classes, Literal and unions."""
_GENERIC = {"List": "list", "Tuple": "tuple", "Dict": "dict"}
_TYPING = frozenset({"typing", "typing_extensions"})
_OF_TYPING = frozenset({"Any", "Optional", "Union", "Literal", "Annotated", *_GENERIC})
_NEVER = frozenset({"Callable", "FrozenSet", "Iterable", "Iterator", "Mapping", "Sequence", "Set", "MutableMapping"})
_CLASSES = {
    "collections.abc": _NEVER,
    "datetime": frozenset({"date", "datetime", "time", "timedelta"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "pathlib": frozenset({"Path"}),
    "uuid": frozenset({"UUID"}),
}
"""Classes of the standard library without a JSON schema, by module."""
_NO_ENUM = frozenset({"TypedDict", "NamedTuple", "Protocol", "BaseModel"})


class Hints:
    """The names of a file that type hints may use."""

    def __init__(self, tree: ast.Module) -> None:
        # The type that each name refers to; "" if only running the file would show it.
        self._meant: dict[str, str] = {}
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                self._meant |= {alias.asname or alias.name: f"{module}{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._meant[node.id] = ""
            elif isinstance(name := getattr(node, "name", None), str) and not isinstance(node, ast.alias):
                self._meant[name] = ""
        self._meant |= {name: name for name in self._classes}

    def unsaid(self, hint: ast.expr) -> str | None:
        """Why transformers raises TypeHintParsingException for a type hint; None if it does not, or may not."""
        match hint:
            case ast.Constant(value=str(text)):
                try:
                    return self.unsaid(ast.parse(text.strip(), mode="eval").body)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
            case ast.BinOp(op=ast.BitOr()):
                return self.unsaid(hint.left) or self.unsaid(hint.right)
            case ast.Subscript():
                return self._of_subscript(self._name(hint.value), hint)
            case ast.Name() | ast.Attribute():
                return self._of_name(self._name(hint), ast.unparse(hint))
        return None

    def _name(self, node: ast.expr) -> str:
        """The full name of a type: "list", "typing.Optional", "Color" of the file; "" if unknown."""
        if isinstance(node, ast.Attribute):
            module = self._name(node.value)
            return f"{module}.{node.attr}" if module else ""
        return self._meant.get(node.id, node.id) if isinstance(node, ast.Name) and "*" not in self._meant else ""

    def _of_name(self, name: str, shown: str) -> str | None:
        if name in self._classes:
            return _of_class(self._classes[name], shown)
        module, _, last = name.rpartition(".")
        never = _NEVER if module in _TYPING else _CLASSES.get(module, frozenset())
        is_other = not module and last not in TAKEN and isinstance(getattr(builtins, last, None), type)
        return f"{shown} is not a JSON type" if last in never or is_other else None

    def _of_subscript(self, name: str, hint: ast.Subscript) -> str | None:
        module, _, last = name.rpartition(".")
        inside = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        if module in _TYPING and last in _OF_TYPING:
            last = _GENERIC.get(last, last)
        elif module or last not in ("list", "tuple", "dict"):
            return self._of_name(name, ast.unparse(hint))
        if last == "tuple" and any(isinstance(element, ast.Constant) and element.value is ... for element in inside):
            return f"{ast.unparse(hint)} is a tuple without a fixed length; use list[...]"
        if last == "tuple" and len(inside) == 1:
            return f"{ast.unparse(hint)} is a tuple of one"
        if last == "Literal":
            return None
        looked_at = {"list": inside[:1], "Annotated": inside[:1], "dict": inside[1:]}.get(last, inside)
        return next((why for element in looked_at if (why := self.unsaid(element)) is not None), None)


def _of_class(node: ast.ClassDef, shown: str) -> str | None:
    """A class of the file can be described if it is an Enum; one with unknown bases may be."""
    bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    is_none = not node.keywords and all(base in _NO_ENUM for base in bases)
    return f"{shown} is a class of the file, but not an Enum" if is_none else None
