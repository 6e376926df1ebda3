"""Reads the functions of a Python file with their docstrings from source, without running it."""

import ast
from typing import NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, Parameter, definition, parameters_of
from grpo_recipes.user_files.functions.type_hints import Hints, hints_of
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
