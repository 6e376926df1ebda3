"""Determines what a function of a reward file returns, if its source leaves no doubt."""

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from grpo_recipes.user_files.local_files import nodes_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_NUMBER, _NUMBERS, _TEXT = "one number", "a number for each", "text"
_MAP, _TEXTS, _MAPS = "a map", "strings", "maps"
_LISTS: dict[str | None, str] = {_TEXT: _TEXTS, _MAP: _MAPS}
_MAKE_NUMBERS = ("float", "int", "len")
_OF_SEVERAL = ("max", "min", "sum")
_OF_ONE = ("abs", "round")
_COMPLETIONS = ("completion", "completions")


def returns_no_list(node: ast.AST, tree: ast.Module) -> str | None:
    """What a function returns if it cannot be a list of numbers, as "nothing" or "one number".

    None if it may be a list, and for decorated functions and anything else. tree: of its file.
    """
    if isinstance(node, ast.Lambda):
        node = ast.FunctionDef("<lambda>", node.args, [ast.Return(node.body)], decorator_list=[])
    if not isinstance(node, _Function) or node.decorator_list:
        return None
    return _kind_of_return(node, tree)


def _kind_of_return(function: _Function, tree: ast.Module) -> str | None:
    inside = list(own_nodes(function.body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
        return None
    values = [node.value for node in inside if isinstance(node, ast.Return)]
    given = [value for value in values if value is not None and not _is_none(value)]
    if not given:
        return None if any(isinstance(node, ast.Raise) for node in inside) and not values else "nothing"
    reader = _Reader(tree, _bindings(function, inside), inside)
    kinds = {reader.kind(value) for value in given}
    kind = kinds.pop() if len(kinds) == 1 else None
    return None if kind == _NUMBERS else kind


def constant_of(node: ast.AST) -> float | None:
    """The number that a function gives every completion: [1.0 for _ in completions], [1.0] * len(completions).

    None if it may give others, and for functions of more than one statement besides a docstring.
    """
    if isinstance(node, ast.Lambda):
        value: ast.expr | None = node.body
    elif isinstance(node, _Function) and not node.decorator_list:
        rest = node.body[ast.get_docstring(node) is not None :]
        value = rest[0].value if len(rest) == 1 and isinstance(rest[0], ast.Return) else None
    else:
        return None
    match value:
        case ast.ListComp(elt=element):
            pass
        case ast.BinOp(left=ast.List(elts=[element]), op=ast.Mult()):
            pass
        case _:
            return None
    try:
        number = ast.literal_eval(element)
    except ValueError:
        return None
    return float(number) if isinstance(number, int | float) else None


# Nested functions and classes, and nodes that have no others but a context.
_CLOSED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Name, ast.Constant)


def own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of statements, except those of nested functions and classes."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _CLOSED):
            waiting.extend(ast.iter_child_nodes(node))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


@lru_cache(maxsize=16)
def _builtins(tree: ast.Module) -> frozenset[str]:
    """Python's built-in functions that no line of the file redefines."""
    others = [node for node in nodes_of(tree) if not isinstance(node, ast.expr)]
    bound = {getattr(node, key, None) for node in others for key in ("name", "asname", "arg")}
    bound |= {node.id for node in nodes_of(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return frozenset() if "*" in bound else frozenset(dir(builtins)) - bound


def _bindings(function: _Function, inside: list[ast.AST]) -> dict[str, list[ast.expr | None]]:
    """The values of each variable: expressions, and None for unknown ones, such as an argument or a loop's."""
    values: dict[str, list[ast.expr | None]] = {}
    assigned: set[ast.AST] = set()
    for node in inside:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
                    assigned.add(target)
    for node in inside:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in assigned:
            values.setdefault(node.id, []).append(None)
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            values.setdefault(argument.arg, []).append(None)
    return values


class _Reader:
    """Distinguishes numbers and texts in a function's expressions from possible lists and arrays.

    tree: of the file. values: the values of each variable. nodes: of the function.
    """

    def __init__(self, tree: ast.Module, values: dict[str, list[ast.expr | None]], nodes: list[ast.AST]) -> None:
        self.tree, self.values, self.nodes = tree, values, nodes
        self._open: set[str] = set()

    def kind(self, value: ast.expr | None) -> str | None:
        """The kind: "one number", "a number for each", "text", "a map", "strings", "maps", or None if it is open."""
        match value:
            case ast.JoinedStr() | ast.Constant(value=str()):
                return _TEXT
            case ast.Constant(value=int() | float()):
                return _NUMBER
            case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
                return _NUMBER if self.kind(value.operand) == _NUMBER else None
            case ast.BinOp():
                return _NUMBER if self.kind(value.left) == self.kind(value.right) == _NUMBER else None
            case ast.IfExp():
                kind, other = self.kind(value.body), self.kind(value.orelse)
                return kind if kind == other else None
            case ast.Name():
                return self._of_name(value.id)
            case ast.Dict(keys=[ast.Constant(value=str()), *_]):
                return _MAP
            case ast.DictComp(key=ast.Name(id=key), generators=[ast.comprehension(target=ast.Name(id=each)) as loop]):
                return _MAP if key == each and _is_of_completions(loop) else None
            case ast.ListComp() | ast.GeneratorExp() if self.kind(value.elt) in _LISTS:
                return _LISTS[self.kind(value.elt)]
            case ast.ListComp() | ast.GeneratorExp():
                is_one = self.kind(value.elt) == _NUMBER or any(map(_is_of_completions, value.generators))
                return _NUMBERS if is_one and not isinstance(value.elt, ast.List | ast.ListComp) else None
            case ast.List(elts=[first, *_]) if self.kind(first) in _LISTS:
                return _LISTS[self.kind(first)]
            case ast.List(elts=[_, *_]):
                return _NUMBERS if all(self.kind(element) == _NUMBER for element in value.elts) else None
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _builtins(self.tree):
                return self._of_call(name, value.args)
        return None

    def _of_call(self, name: str, given: list[ast.expr]) -> str | None:
        if name in _MAKE_NUMBERS or name == "str":
            return _TEXT if name == "str" else _NUMBER
        kinds = [self.kind(argument) for argument in given]
        if name in _OF_SEVERAL and kinds[:1] == [_NUMBERS]:
            return _NUMBER if kinds[1:] in ([], [_NUMBER]) else None
        if name in _OF_ONE or (name in _OF_SEVERAL and len(kinds) > 1):
            return _NUMBER if kinds[:1] == [_NUMBER] and set(kinds) == {_NUMBER} else None
        return None

    def _of_name(self, name: str) -> str | None:
        """The kind of a variable's values; assignments of the variable to itself are ignored."""
        if name in self._open:
            return _NUMBER
        given = self.values.get(name, [])
        if given and all(isinstance(value, ast.List) and not value.elts for value in given):
            return _NUMBERS if self._is_one_for_each(name) else None
        self._open.add(name)
        kinds = {self.kind(value) for value in given}
        self._open.discard(name)
        return kinds.pop() if len(kinds) == 1 else None

    def _is_one_for_each(self, name: str) -> bool:
        """Whether a list is only appended to, once in each iteration over the completions."""
        loops = [node for node in self.nodes if isinstance(node, ast.For) and _is_of_completions(node)]
        calls: list[Any] = [call for loop in loops for call in ast.walk(loop) if list_appended_to(call) == name]
        others = [call for call in calls if len(call.args) != 1 or isinstance(call.args[0], ast.List | ast.ListComp)]
        used = [n for n in self.nodes if isinstance(n, ast.Attribute) and getattr(n.value, "id", None) == name]
        return bool(calls) and not others and len(used) == len(calls)


def _is_of_completions(loop: ast.For | ast.comprehension) -> bool:
    """Whether a loop iterates over the completions, alone or together with other columns."""
    over = loop.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in ("zip", "enumerate"):
        return any(_is_completions(argument) for argument in over.args)
    return _is_completions(over)


def _is_completions(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in _COMPLETIONS


def list_appended_to(node: ast.AST) -> str | None:
    """The name of the list that a call appends to; None for other nodes."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
            return name
    return None
