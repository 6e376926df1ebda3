"""What a function of a reward file returns, as far as its source says it for certain."""

import ast
from collections.abc import Iterator

from grpo_recipes.facts.local_files import source_tree

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_NUMBERS = ("abs", "float", "int", "len", "max", "min", "round", "sum")


def returns_no_list(path: str, name: str) -> str | None:
    """What a function at the top level returns where it can be no list of numbers: "nothing", "one number", "text".

    None where it may be one, for what is decorated, and for what cannot be read. Nothing is run.
    """
    try:
        tree = source_tree(path)
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, _Function) and node.name == name:
            return None if node.decorator_list else _returned(node)
    return None


def _returned(function: _Function) -> str | None:
    inside = list(_own_nodes(function))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
        return None
    values = [node.value for node in inside if isinstance(node, ast.Return)]
    given = [value for value in values if value is not None and not _is_none(value)]
    if not given:
        return None if any(isinstance(node, ast.Raise) for node in inside) and not values else "nothing"
    kinds = {_kind(value) for value in given}
    return kinds.pop() if len(kinds) == 1 else None


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _kind(value: ast.expr) -> str | None:
    if isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        return "text"
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        return "one number"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return "one number" if value.func.id in _NUMBERS else "text" if value.func.id == "str" else None
    return None
