"""The functions of a Python file with what they say of themselves, read from its source and never run."""

import ast
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, definition
from grpo_recipes.user_files.functions.type_hints import Hints
from grpo_recipes.user_files.returned_values import own_nodes

_Function = ast.FunctionDef | ast.AsyncFunctionDef
Kind = Literal["positional only", "plain", "*", "**"]


class Parameter(NamedTuple):
    """One parameter. unsaid: why its type hint cannot be told to a model; None where it can, or may."""

    name: str
    kind: Kind
    has_hint: bool
    unsaid: str | None
    has_default: bool

    @property
    def is_needed(self) -> bool:
        """Whether a call without it raises TypeError."""
        return self.kind in ("positional only", "plain") and not self.has_default


class Documented(NamedTuple):
    """A function. text: its docstring as Python's inspect cleans it, None without one."""

    name: str
    line: int
    text: str | None
    parameters: tuple[Parameter, ...]
    is_async: bool
    is_decorated: bool
    yields: bool


def documented(path: str, name: str) -> Documented | None:
    """The function that a name of a Python file stands for, None for what is no function or cannot be read.

    Raises OSError, and SyntaxError or ValueError for what is no Python source.
    """
    found = definition(path, name)
    if not isinstance(found, Definition) or not isinstance(found.node, _Function):
        return None
    return documented_function(found.node, hints_of(found.tree))._replace(name=name)


@lru_cache(maxsize=16)
def hints_of(tree: ast.Module) -> Hints:
    """The names of a file that type hints may use; several rules ask of the same file."""
    return Hints(tree)


def documented_function(node: _Function, hints: Hints) -> Documented:
    """What a function says, in a file with these names."""
    return Documented(
        name=node.name,
        line=node.lineno,
        text=ast.get_docstring(node),
        parameters=tuple(_parameters(node.args, hints)),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        is_decorated=bool(node.decorator_list),
        yields=any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own_nodes(node.body)),
    )


def _unsaid(parameter: ast.arg, hints: Hints) -> str | None:
    try:
        return None if parameter.annotation is None else hints.unsaid(parameter.annotation)
    except RecursionError:  # a union of a thousand types
        return None


def _parameters(arguments: ast.arguments, hints: Hints) -> list[Parameter]:
    """In the order of the signature."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    with_default = by_place[len(by_place) - len(arguments.defaults) :]
    with_default += [one for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    kinds: list[tuple[ast.arg | None, Kind]] = [
        *((one, "positional only") for one in arguments.posonlyargs),
        *((one, "plain") for one in arguments.args),
        (arguments.vararg, "*"),
        *((one, "plain") for one in arguments.kwonlyargs),
        (arguments.kwarg, "**"),
    ]
    return [
        Parameter(one.arg, kind, one.annotation is not None, _unsaid(one, hints), one in with_default)
        for one, kind in kinds
        if one is not None
    ]


# What a docstring says to a model: what parse_google_format_docstring of transformers 5.23 reads, line by line.
#
# Its patterns try every run of spaces again from each of its characters, which a long docstring would take for ever.


_MARK = "Args:|Returns:|Raises:"
_END = "Returns:|Raises:"
_ARGUMENT = r"([ \t]*)(\w+):"
_CHOICES = r"(?i)\(choices:"


def description(text: str) -> str:
    """What a docstring says before its first section."""
    text = text.strip()
    found = re.search(_MARK, text)
    return (text if found is None else text[: found.start()]).strip()


def argument_texts(text: str) -> Mapping[str, str]:
    """What a docstring says of each argument, by its name.

    One that is indented deeper belongs to the one before, and so does the line behind an argument without a text.
    """
    found: dict[str, list[str]] = {}
    said: list[str] | None = None
    indent, takes_next = "", False
    for line in _block(text.strip()).split("\n"):
        if not line.strip():
            continue
        start = None if takes_next else re.match(_ARGUMENT, line)
        if start is not None and (said is None or not line.startswith((f"{indent} ", f"{indent}\t"))):
            indent, rest = start[1], line[start.end() :].strip()
            said = found[start[2]] = [rest] if rest else []
            takes_next = not rest
        elif said is not None:
            said.append(line.strip())
            takes_next = False
    return {name: " ".join(lines) for name, lines in found.items()}


def _block(text: str) -> str:
    """The lines below `Args:`, which is a line of its own that is neither the first one nor the last."""
    lines = text.split("\n")
    start = next((place for place in range(1, len(lines) - 1) if lines[place].lstrip() == "Args:"), None)
    return "" if start is None else re.split(_END, "\n".join(lines[start + 1 :]), maxsplit=1)[0]


def unread_choices(said: str) -> str | None:
    """The choices at the end of an argument's text where they are no list of JSON; None where they are, or none."""
    found = re.search(_CHOICES, said)
    if found is None or not said.rstrip().endswith(")"):
        return None
    written = said[found.end() :].strip().removesuffix(")").strip()
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return None if isinstance(value, list | dict | str) else written


def has_type_in_brackets(text: str, name: str) -> bool:
    """Whether an argument is written as `name (type): ...`, which is not read as one."""
    return any(line.lstrip().startswith((f"{name} (", f"{name}(")) for line in text.split("\n"))
