"""Finds the code of a reward that certainly runs, and the keywords that it takes from TRL. Nothing is run.

Code certainly runs if it is in no branch, `try` or `with`, and in no loop over anything but TRL's batches.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache

from grpo_recipes.user_files.functions.definitions import FunctionNode
from grpo_recipes.user_files.local_files import nodes_of
from grpo_recipes.user_files.returned_values import list_appended_to, own_nodes

BATCHES = ("completions", "prompts")
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@lru_cache(maxsize=256)
def keywords_read(function: ast.AST) -> tuple[str, ...]:
    """The names that a function always reads from its **kwargs: kwargs["gold"], kwargs.pop("gold")."""
    if not isinstance(function, FunctionNode) or function.args.kwarg is None or function.decorator_list:
        return ()
    if any(isinstance(node, ast.Return | ast.Raise) for node in branch_exits(function)):
        return ()
    rest = function.args.kwarg.arg
    uses = [n for n in nodes_of(function) if isinstance(n, ast.Name) and n.id == rest]
    read = {
        key: node for node, _ in nodes_that_run(function.body, frozenset(), BATCHES) if (key := _key_of(node, rest))
    }
    plain = [n for n in nodes_of(function) if isinstance(n, ast.Subscript | ast.Attribute) and n.value in uses]
    if len(plain) != len(uses) or any(_may_add(node) for node in plain):
        return ()
    return tuple(read)


def line_of_first_return(function: ast.AST) -> int | None:
    """The line of a return that ends a loop over the completions in its first iteration, None without one.

    The returned value must come from the loop, and not from the whole batch.
    """
    if not isinstance(function, FunctionNode) or function.decorator_list:
        return None
    for loop in [node for node in function.body if isinstance(node, ast.For)]:
        inside = list(own_nodes(loop.body))
        goes_on = any(isinstance(node, ast.Continue | ast.Break) for node in inside)
        if not goes_on and _always_returns(loop.body) and _elements(loop.target, loop.iter, ("completions",)):
            made = bound(loop) | {to for node in inside if (to := list_appended_to(node))}
            returns = [node for node in inside if isinstance(node, ast.Return)]
            if all(_is_of_one(node.value, made) for node in returns):
                return min(node.lineno for node in returns)
    return None


def branch_exits(function: FunctionNode) -> list[ast.stmt]:
    """The statements in branches that end the function or an iteration, except those for an empty batch."""
    branches = [n for n in own_nodes(function.body) if isinstance(n, ast.If | ast.Try | ast.Match | ast.While)]
    judged = [branch for branch in branches if not _is_of_nothing(branch)]
    return [n for branch in judged for n in ast.walk(branch) if isinstance(n, _EXITS)]


def _is_of_nothing(branch: ast.AST) -> bool:
    """Whether a branch is for an empty batch: if not completions."""
    match branch:
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)), orelse=[]):
            return name in BATCHES
    return False


def names_in(value: ast.expr | None) -> set[str]:
    """The names that an expression uses, except those of which only the length is used."""
    counted = [n.args for n in ast.walk(value or ast.Constant(None)) if _is_len(n)]  # type: ignore[attr-defined]
    names = [n for n in ast.walk(value or ast.Constant(None)) if isinstance(n, ast.Name)]
    return {n.id for n in names if [n] not in counted}


def _is_len(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def bound(node: ast.AST) -> set[str]:
    """The names that are bound anywhere in a node."""
    return {n.id for n in nodes_of(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _always_returns(body: list[ast.stmt]) -> bool:
    match body[-1:]:
        case [ast.Return()]:
            return True
        case [ast.If(body=yes, orelse=[_, *_] as no)]:
            return _always_returns(yes) and _always_returns(no)
    return False


def _is_of_one(value: ast.expr | None, made: set[str]) -> bool:
    """Whether an expression is a list of constants, or of values from a loop, and not of the whole batch."""
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} if value is not None else set()
    return names.isdisjoint(BATCHES) and (bool(names & made) or isinstance(value, ast.List))


def _key_of(node: ast.AST, rest: str) -> str | None:
    """The key of kwargs["key"] or kwargs.pop("key"); None for other nodes."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()) if name == rest:
            return key
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value=str(key))], keywords=[]
        ) if name == rest:
            return key
    return None


def _may_add(node: ast.Subscript | ast.Attribute) -> bool:
    """Whether this use of **kwargs may add a key to it."""
    return not isinstance(node.ctx, ast.Load) or (
        isinstance(node, ast.Attribute) and node.attr in ("setdefault", "update")
    )


def _elements(target: ast.expr, over: ast.expr, batches: tuple[str, ...]) -> set[str]:
    """The names that a loop binds to elements of batches, directly or by zip and enumerate."""
    match over, target:
        case ast.Name(id=batch), ast.Name(id=name):
            return {name} if batch in batches else set()
        case ast.Call(func=ast.Name(id="zip"), args=parts), ast.Tuple(elts=names):
            return {name for each, part in zip(names, parts, strict=False) for name in _elements(each, part, batches)}
        case ast.Call(func=ast.Name(id="enumerate"), args=[part, *_]), ast.Tuple(elts=[_, each]):
            return _elements(each, part, batches)
    return set()


def nodes_that_run(
    nodes: list[ast.stmt] | list[ast.expr], elements: frozenset[str], batches: tuple[str, ...]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """The nodes that certainly run when these do, each with the names of a batch's elements there."""
    for node in nodes:
        if isinstance(node, ast.Name | ast.Constant):  # most nodes, which contain no others
            yield node, elements
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda() | ast.With() | ast.Try():
                continue
            case ast.If(test=first) | ast.While(test=first) | ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
                yield from nodes_that_run([first], elements, batches)
            case ast.Match(subject=first):
                yield from nodes_that_run([first], elements, batches)
            case ast.For(target=target, iter=over, body=body):
                yield from nodes_that_run([over], elements, batches)
                names = _elements(target, over, batches) - {n for line in body for n in bound(line)}
                if names or _counts(over, batches):
                    yield from nodes_that_run(body, elements - bound(target) | names, batches)
            case ast.ListComp(generators=[loop]) | ast.SetComp(generators=[loop]) | ast.GeneratorExp(generators=[loop]):
                yield from nodes_that_run([loop.iter], elements, batches)
                names = _elements(loop.target, loop.iter, batches)
                if names or _counts(loop.iter, batches):
                    inside = loop.ifs[:1] or [node.elt]
                    yield from nodes_that_run(inside, elements - bound(loop.target) | names, batches)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case _:
                yield node, elements
                yield from nodes_that_run(list(ast.iter_child_nodes(node)), elements, batches)  # type: ignore[arg-type]


def _counts(over: ast.expr, batches: tuple[str, ...]) -> bool:
    """Whether a loop counts through a batch: range(len(completions))."""
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=batch)])]):
            return batch in batches
    return False
