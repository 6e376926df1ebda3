"""Finds expressions in a reward that certainly take texts for messages, or messages for texts.

Functions that check any type, or are decorated, are not judged. Nothing is run.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from grpo_recipes.user_files.functions.definitions import FunctionNode
from grpo_recipes.user_files.functions.reward_body import (
    BATCHES,
    bound,
    branch_exits,
    names_in,
    nodes_that_run,
)
from grpo_recipes.user_files.local_files import nodes_of

_ASKS_FOR_TYPES = ("hasattr", "isinstance", "type")
_TEXT_ALONE = frozenset(name for name in dir(str) if not name.startswith("_")) - frozenset(dir(list))
_SEARCHES = {"search": 1, "match": 1, "fullmatch": 1, "findall": 1, "finditer": 1, "split": 1, "sub": 2, "subn": 2}
_DEEPEST = 3


class Misread(NamedTuple):
    """An expression that takes an element of a batch for something else.

    code: as written. result: "TypeError" or a value. raises: whether TRL's call certainly fails there.
    """

    line: int
    code: str
    result: str
    raises: bool


def misread_elements(function: ast.AST, tree: ast.Module, *, are_messages: bool, has_turns: bool) -> Misread | None:
    """The first expression that certainly misreads a prompt or a completion, None without one.

    tree: of the function's file. are_messages: whether both are lists of messages, else texts. has_turns: whether a
    completion may have several.
    """
    if not isinstance(function, FunctionNode) or _is_open(function):
        return None
    reader = _ElementReader(tree, are_messages, has_turns)
    misread = next(reader.misread(function, _batches(function), frozenset(), 0), None)
    exits = branch_exits(function)
    told_apart = any("completions" in names_in(node.value) for node in exits if isinstance(node, ast.Return))
    if misread is None or told_apart or (are_messages and _reads_messages(function)):
        return None
    return misread._replace(raises=misread.raises and not exits)


def _is_open(function: FunctionNode) -> bool:
    """Whether a function may handle several types: its source checks them, or a decorator changes it."""
    asks = any(isinstance(node, ast.Name) and node.id in _ASKS_FOR_TYPES for node in nodes_of(function))
    return bool(function.decorator_list) or asks


def _batches(function: FunctionNode) -> tuple[str, ...]:
    """The parameters for TRL's batches that the function never rebinds."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return tuple(
        argument.arg for argument in arguments if argument.arg in BATCHES and argument.arg not in bound(function)
    )


@lru_cache(maxsize=16)
def _unique_functions(tree: ast.Module) -> Mapping[str, FunctionNode]:
    """The functions of a file by name, including nested ones, except those with an ambiguous name."""
    every = [node for node in nodes_of(tree) if isinstance(node, FunctionNode)]
    names = Counter(node.name for node in every)
    others = bound(tree) | {node.arg for node in nodes_of(tree) if isinstance(node, ast.arg)}
    return {node.name: node for node in every if names[node.name] == 1 and node.name not in others}


@lru_cache(maxsize=16)
def _patterns(tree: ast.Module) -> frozenset[str]:
    """The name of the module re, and names only bound to re.compile(...); empty without `import re`."""
    if not any(
        isinstance(n, ast.Import) and any(a.name == "re" and not a.asname for a in n.names) for n in nodes_of(tree)
    ):
        return frozenset()
    given: dict[str, list[ast.expr]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
    return frozenset({"re"} | {name for name, values in given.items() if all(map(_is_compiled, values))})


def _is_compiled(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile")):
            return True
    return False


def _reads_messages(function: FunctionNode) -> bool:
    """Whether completions are read as messages anywhere, as in c[0]["content"]."""
    for node in nodes_of(function):
        match node:
            case ast.Subscript(value=ast.Subscript(value=of), slice=ast.Constant(value=str())):
                is_element = isinstance(of, ast.Name) and of.id in BATCHES
                if not is_element and "prompts" not in names_in(of):
                    return True
    return False


class _ElementReader(NamedTuple):
    """Finds operations that an element of a batch does not support. tree: of the function's file."""

    tree: ast.Module
    are_messages: bool
    has_turns: bool

    def misread(
        self, function: FunctionNode, batches: tuple[str, ...], elements: frozenset[str], depth: int
    ) -> Iterator[Misread]:
        """The misread expressions in a function, and in those that it passes an element to."""
        for node, names in nodes_that_run(function.body, elements, batches):
            if isinstance(node, ast.expr):
                result = (
                    self._of_text(node, names, batches)
                    if self.are_messages
                    else self._of_messages(node, names, batches)
                )
                if result:
                    yield Misread(node.lineno, ast.unparse(node), result, result.endswith("Error"))
                yield from self._of_helper(node, names, batches, depth)

    def _of_helper(
        self, node: ast.expr, names: frozenset[str], batches: tuple[str, ...], depth: int
    ) -> Iterator[Misread]:
        match node:
            case ast.Call(func=ast.Name(id=name), args=given) if depth < _DEEPEST and any(
                _is_element(arg, names, batches) for arg in given
            ):
                helper = _unique_functions(self.tree).get(name)
                if helper is None:
                    return
                taken = helper.args.posonlyargs + helper.args.args
                elements = {to.arg for to, arg in zip(taken, given, strict=False) if _is_element(arg, names, batches)}
                elements -= bound(helper)
                if elements and isinstance(helper, ast.FunctionDef) and not _is_open(helper) and not _yields(helper):
                    if self.are_messages and _reads_messages(helper):
                        return
                    is_sure = not branch_exits(helper)
                    for misread in self.misread(helper, (), frozenset(elements), depth + 1):
                        yield misread._replace(raises=misread.raises and is_sure)

    def _of_text(self, node: ast.expr, names: frozenset[str], batches: tuple[str, ...]) -> str | None:
        """The result of an expression that takes a list of messages for a text, None for others."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr=attr), args=given) if (
                attr in _SEARCHES and of in _patterns(self.tree)
            ):
                at = _SEARCHES[attr] - (of != "re")
                return "TypeError" if at < len(given) and _is_element(given[at], names, batches) else None
            case ast.Call(func=ast.Attribute(value=of, attr=attr)) if attr in _TEXT_ALONE | {"get"}:
                return "AttributeError" if _is_element(of, names, batches) else None
            case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn() as kind], comparators=[whole]):
                is_in = isinstance(kind, ast.In)
                return ("always false" if is_in else "always true") if _is_element(whole, names, batches) else None
            case ast.Call(func=ast.Name(id="len"), args=[of]) if not self.has_turns:
                return "always 1, one message" if _is_element(of, names, tuple(set(batches) - {"prompts"})) else None
            case ast.Subscript(value=of, slice=ast.Constant(value=str())):
                return "TypeError" if _is_element(of, names, batches) else None
        return None

    def _of_messages(self, node: ast.expr, names: frozenset[str], batches: tuple[str, ...]) -> str | None:
        """The result of an expression that takes a text for messages, None for others."""
        match node:
            case ast.Subscript(value=ast.Subscript(value=of, slice=index), slice=ast.Constant(value=str())):
                return "TypeError" if _is_whole(index) and _is_element(of, names, batches) else None
            case ast.Subscript(value=of, slice=ast.Constant(value=str())):
                return "TypeError" if _is_element(of, names, batches) else None
            case ast.Call(func=ast.Attribute(value=ast.Subscript(value=of, slice=index), attr="get")):
                return "AttributeError" if _is_whole(index) and _is_element(of, names, batches) else None
            case ast.Call(func=ast.Attribute(value=of, attr="get")):
                return "AttributeError" if _is_element(of, names, batches) else None
        return None


def _is_element(value: ast.expr, names: frozenset[str], batches: tuple[str, ...]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in names
        case ast.Subscript(value=ast.Name(id=batch), slice=index):
            is_index = _is_whole(index) if isinstance(index, ast.Constant) else not isinstance(index, ast.Slice)
            return batch in batches and is_index
    return False


def _is_whole(index: ast.expr) -> bool:
    match index:
        case ast.Constant(value=int()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return True
    return False


def _yields(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes_of(function))
