"""Reads the classes of a Python file and their methods from source, without running it."""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from grpo_recipes.user_files.functions.definitions import Definition, definition
from grpo_recipes.user_files.functions.documented import Documented, documentation_of
from grpo_recipes.user_files.functions.type_hints import Hints, hints_of
from grpo_recipes.user_files.returned_values import own_nodes

Bound = Literal["object", "class", "nothing"]
_EMPTY_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})
_PROPERTIES = frozenset({"property", "cached_property", "setter", "getter", "deleter"})


class Method(NamedTuple):
    """A method. function: without the parameter that it is bound to. bound_to: "nothing" for a static one.

    takes_self: whether it has a parameter for the bound object. returns: whether it returns anything but None.
    """

    function: Documented
    bound_to: Bound
    takes_self: bool
    returns: bool


class DocumentedClass(NamedTuple):
    """A class. methods: by name, including those of its bases in the file; properties are excluded.

    others: names that it binds to something else. is_open: unknown bases or decorators may add to that or change it.
    """

    name: str
    line: int
    methods: Mapping[str, Method]
    others: frozenset[str]
    is_open: bool

    def may_have(self, name: str) -> bool:
        """Whether an object may have this name, as far as the file shows."""
        return self.is_open or name in self.methods or name in self.others


def class_of(path: str, name: str) -> DocumentedClass | None:
    """The class that a name at the top level of a Python file refers to, None for anything else.

    Raises OSError, and SyntaxError or ValueError for invalid Python source.
    """
    target = definition(path, name)
    if not isinstance(target, Definition) or not isinstance(target.node, ast.ClassDef):
        return None
    read = _classes(target.tree).get(target.node.name)
    return None if read is None or read.line != target.node.lineno else read._replace(name=name)


@lru_cache(maxsize=16)
def _classes(tree: ast.Module) -> Mapping[str, DocumentedClass]:
    hints, classes = hints_of(tree), dict[str, DocumentedClass]()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = _class(node, classes, hints)
    return classes


def _class(node: ast.ClassDef, above: Mapping[str, DocumentedClass], hints: Hints) -> DocumentedClass:
    """Reads one class. above: the classes that the file has defined so far, the only possible bases."""
    methods: dict[str, Method] = {}
    others: set[str] = set()
    is_open = bool(node.decorator_list or node.keywords)
    for base in reversed(node.bases):
        name = _last_name(base)
        if name in above:
            methods |= above[name].methods
            others |= above[name].others
            is_open |= above[name].is_open
        else:
            is_open |= name not in _EMPTY_BASES
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            methods.pop(statement.name, None)
            method = _method(statement, hints)
            if method is None:
                others.add(statement.name)
            else:
                methods[statement.name] = method
        elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match):
            is_open = True
        else:
            others.update(_bound(statement))
    return DocumentedClass(node.name, node.lineno, methods, frozenset(others - methods.keys()), is_open)


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, hints: Hints) -> Method | None:
    """The method, None for a property."""
    decorators = [_last_name(decorator) for decorator in node.decorator_list]
    if not _PROPERTIES.isdisjoint(decorators):
        return None
    bound_to: Bound = (
        "nothing" if "staticmethod" in decorators else "class" if "classmethod" in decorators else "object"
    )
    function = documentation_of(node, hints)
    own = function.parameters
    takes_self = bool(own) and own[0].kind in ("positional only", "plain", "*")
    drops = takes_self and bound_to != "nothing" and own[0].kind != "*"
    parameters = own[1:] if drops else own
    returns = any(_is_value(inner) for inner in own_nodes(node.body))
    return Method(function._replace(parameters=parameters), bound_to, takes_self, returns)


def _is_value(node: ast.AST) -> bool:
    is_none = isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value is None
    return isinstance(node, ast.Return) and node.value is not None and not is_none


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a class binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return (name.id for target in filter(None, targets) for name in ast.walk(target) if isinstance(name, ast.Name))


def _last_name(node: ast.expr) -> str:
    """`ABC` of `abc.ABC`, `Generic` of `Generic[T]`, `cache` of `cache(1)`."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
