"""Finds what an environment's methods change and its `reset` leaves, so that it reaches the next episode."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, FunctionNode

CHANGING = ("append", "extend", "insert", "add", "update", "remove", "discard", "pop", "popitem", "appendleft", "push")
MUTABLE = ("list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict")
# State that is meant to outlast an episode, by its name.
LASTING = re.compile("cache|memo|client|connection|session|pool|lock|total|lifetime|stat|logger", re.I)
UNREADABLE = ("setattr", "vars", "__dict__", "__init__", "super")


class Leftover(NamedTuple):
    """An attribute that one episode changes for the next. line: where method changes it.

    is_shared: it belongs to the class, so that all objects have the same one.
    """

    attribute: str
    method: str
    line: int
    is_shared: bool


class _MethodReader:
    """Collects how one method uses the attributes of its object, whose name in the method is `me`."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._me = function.args.args[0].arg if function.args.args else ""
        self.assigned, self.cleared, self.read, self.calls = set[str](), set[str](), set[str](), set[str]()
        self.changed: dict[str, tuple[int, bool]] = {}
        self._changing = set[int]()
        nodes = list(ast.walk(function))
        names = {name for node in nodes for name in (getattr(node, "id", None), getattr(node, "attr", None))}
        self.is_unreadable = not names.isdisjoint(UNREADABLE)
        for node in nodes:
            self._take(node)
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in self._changing:
                self.read |= {*self._own(node)}

    def _own(self, node: ast.AST) -> tuple[str, ...]:
        is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self._me
        return (node.attr,) if is_own else ()  # type: ignore[attr-defined]

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._assign([part for target in targets for part in getattr(target, "elts", [target])], node, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign([target], node, value)
            case ast.AugAssign(target=target):
                for name in self._own(target):
                    self.changed.setdefault(name, (node.lineno, True))
            case ast.Call(func=ast.Attribute(value=holder, attr=attr) as called):
                self.calls |= {*self._own(called)}
                for name in self._own(holder):
                    if attr == "clear":
                        self.cleared.add(name)
                    elif attr in CHANGING:
                        self._changing.add(id(holder))
                        self.changed.setdefault(name, (node.lineno, attr != "update"))

    def _assign(self, targets: list[ast.expr], node: ast.stmt, value: ast.expr) -> None:
        for target in targets:
            for name in self._own(target):
                self.assigned.add(name)
                self.changed.setdefault(name, (node.lineno, isinstance(value, ast.Constant)))
            if isinstance(target, ast.Subscript):
                self._changing.add(id(target.value))
                for name in self._own(target.value):
                    self.changed.setdefault(name, (node.lineno, False))


def leftovers(environment: Definition) -> list[Leftover]:
    """The attributes that methods change, that `reset` does not set, and that decide a reward or an answer."""
    if not isinstance(environment.node, ast.ClassDef):
        return []
    bases = {node.name: node for node in environment.tree.body if isinstance(node, ast.ClassDef)}
    classes = [*_lineage(environment.node, bases)]
    methods = {
        node.name: _MethodReader(node) for each in classes for node in each.body if isinstance(node, FunctionNode)
    }
    restoring = _closure(methods, ["reset"])
    if "reset" not in methods or any(methods[name].is_unreadable for name in restoring):
        return []
    of_class = {name for each in classes for name in _mutable(each)}
    first = _closure(methods, ["__init__"])
    own = of_class - {name for method in restoring | first for name in methods[method].assigned}
    restored = {name for method in restoring for name in methods[method].assigned | methods[method].cleared}
    judged = {name for method in _closure(methods, ["get_reward"]) for name in methods[method].read}
    judged |= _read_outside(environment, {each.name for each in classes})
    found = {}
    for method in methods.keys() - restoring - first:
        answered = {name for each in methods.keys() - restoring - first for name in methods[each].read}
        for attribute, (line, is_state) in methods[method].changed.items():
            is_read = attribute in judged or (is_state and attribute in answered)
            is_shared = attribute in own
            if is_read and not LASTING.search(attribute) and (is_shared or attribute not in restored):
                found[attribute] = Leftover(attribute, method, line, is_shared)
    return sorted(found.values(), key=lambda each: each.line)


def _lineage(node: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """A class's bases in the file and the class itself, the nearest last."""
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in known and known[base.id] is not node:
            yield from _lineage(known[base.id], known)
    yield node


def _closure(methods: Mapping[str, _MethodReader], names: list[str]) -> set[str]:
    """The names of methods, and of those that they call."""
    waiting, closure = [*names], set[str]()
    while waiting:
        name = waiting.pop()
        if name in methods and name not in closure:
            closure.add(name)
            waiting += methods[name].calls
    return closure


def _mutable(node: ast.ClassDef) -> Iterator[str]:
    """The attributes of a class that hold a list, a dict or a set."""
    for statement in node.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        value, targets = statement.value, statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MUTABLE
        if is_call or isinstance(value, ast.List | ast.Dict | ast.Set):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _read_outside(environment: Definition, classes: set[str]) -> set[str]:
    """The attributes that the file's functions read of other objects, as rewards do of environments."""
    functions = [node for node in environment.tree.body if isinstance(node, FunctionNode)]
    return {
        node.attr
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
