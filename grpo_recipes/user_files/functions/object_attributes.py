"""Finds the attributes that functions read of environments, and those that their classes may have, from source."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, FunctionNode

# With one of these in its file, an object may have attributes that the source does not name.
UNREADABLE = frozenset({"setattr", "vars", "__dict__", "__getattr__", "__getattribute__", "__slots__", "exec"})


class Lookup(NamedTuple):
    """An attribute that a function reads. raises: it fails without the attribute, and takes no other value for it."""

    name: str
    line: int
    raises: bool


def attributes_set(tree: ast.Module) -> frozenset[str] | None:
    """Every attribute that a file sets on any object; None if it may set some that it does not name."""
    names, nodes = set[str](), [*ast.walk(tree)]
    for node in nodes:
        words = {getattr(node, field, None) for field in ("id", "attr", "name")}
        if not UNREADABLE.isdisjoint(word for word in words if isinstance(word, str)):
            return None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names.add(node.attr)
    return frozenset(names)


def read_of_elements(function: ast.AST, sequence: str) -> list[Lookup]:
    """What a function reads of the elements of a parameter or keyword, as rewards do of `environments`."""
    nodes = [*ast.walk(function)]
    loops = [(node.target, node.iter) for node in nodes if isinstance(node, ast.For | ast.comprehension)]
    names = [name for target, iterable in loops for name in _elements(target, iterable, sequence)]
    names += [
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_item(node.value, sequence)
    ]
    return _reads(function, names, sequence) if _are_bound_once(function, names) else []


def read_of_self(environment: Definition) -> list[Lookup]:
    """What the methods of a class read of `self`."""
    assert isinstance(environment.node, ast.ClassDef)
    methods = [node for node in environment.node.body if isinstance(node, FunctionNode) and node.args.args]
    plain = [
        node for node in methods if "staticmethod" not in {getattr(mark, "id", "") for mark in node.decorator_list}
    ]
    return [read for node in plain for read in _reads(node, [node.args.args[0].arg], "")]


def _elements(target: ast.expr, iterable: ast.expr, sequence: str) -> Iterator[str]:
    """The names that a loop binds to elements of the sequence, also through zip and enumerate."""
    match target, iterable:
        case ast.Name(id=name), _ if _is_sequence(iterable, sequence):
            yield name
        case ast.Tuple(elts=[_, part]), ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]):
            yield from _elements(part, first, sequence)
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=given):
            for part, one in zip(parts, given, strict=False):
                yield from _elements(part, one, sequence)


def _is_sequence(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Name(id=own):
            return own == name
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=key)):
            return bool(key == name)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_]):
            return bool(key == name)
    return False


def _is_item(node: ast.expr, sequence: str) -> bool:
    """Whether an expression is one element of the sequence: environments[0]."""
    is_one = isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice)
    return is_one and _is_sequence(node.value, sequence)  # type: ignore[attr-defined]


def _are_bound_once(function: ast.AST, names: list[str]) -> bool:
    """Whether nothing else is bound to these names, so that each use is of an element."""
    stored = [
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    ]
    return all(stored.count(name) == names.count(name) for name in names)


def _reads(function: ast.AST, names: list[str], sequence: str) -> list[Lookup]:
    """What a function reads of these objects, except for what it asks for with hasattr."""
    reads, asked, catches = list[Lookup](), set[str](), False

    def is_one(node: ast.expr) -> bool:
        return _is_item(node, sequence) or (isinstance(node, ast.Name) and node.id in names)

    for node in ast.walk(function):
        match node:
            case ast.ExceptHandler(type=kind):
                catches |= kind is None or any(word in ast.unparse(kind) for word in ("AttributeError", "Exception"))
            case ast.Attribute(value=one, attr=name, ctx=ast.Load()) if is_one(one):
                reads.append(Lookup(name, node.lineno, True))
            case ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str(name))]):
                asked.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[one, ast.Constant(value=str(name)), *rest]) if is_one(one):
                reads.append(Lookup(name, node.lineno, not rest))
    return [read._replace(raises=read.raises and not catches) for read in reads if read.name not in asked]
