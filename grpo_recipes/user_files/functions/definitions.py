"""Finds what the names of a Python file are bound to, from source, without running it."""

import ast
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from grpo_recipes.user_files.local_files import is_never_entered, source_tree

CALLED_WITH = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""The keywords that TRL passes to a reward besides the columns."""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Read = FunctionNode | ast.Lambda | ast.ClassDef
# Anything bound to one of these can never be called.
_NO_CALLABLES = (
    ast.Import,
    ast.Delete,
    ast.Constant,
    ast.JoinedStr,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
)
# With one of these, a file may bind names that its source does not show.
_BINDS_UNSEEN = frozenset({"exec", "globals", "locals", "vars", "setattr", "__getattr__"})
_MOST_STEPS = 8


class Definition(NamedTuple):
    """The definition of a name. path and tree: the file of the definition, which may be an imported one.

    bound: parameters that a call by this name does not fill, because a partial or an object does.
    """

    path: str
    tree: ast.Module
    node: FunctionNode | ast.Lambda | ast.ClassDef
    bound: frozenset[str] = frozenset()

    @property
    def at(self) -> str:
        """The file and the line."""
        return f"{os.path.basename(self.path)}:{self.node.lineno}"

    @property
    def decorators(self) -> list[ast.expr]:
        """The decorators of the function or class, with which calls may go to something else."""
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list


class Module(NamedTuple):
    """The names of a file. bound: the bindings of each, in order, and whether each depends on a condition.

    is_open: it may bind names that its source does not show, as `from x import *` does.
    """

    path: str
    tree: ast.Module
    bound: Mapping[str, list[tuple[ast.AST, bool]]]
    is_open: bool

    @property
    def callables(self) -> list[str]:
        """The names that may be intended, functions and classes first."""
        names = [name for name, bound in self.bound.items() if not isinstance(bound[-1][0], _NO_CALLABLES)]
        return sorted(names, key=lambda name: not isinstance(self.bound[name][-1][0], _Defined))


def module_of(path: str) -> Module:
    """The names of a Python file. Raises OSError, and SyntaxError or ValueError for invalid Python source."""
    status = os.stat(path)
    return _module(path, status.st_ino, status.st_size, status.st_mtime_ns)


def definition(path: str, name: str) -> Definition | str | None:
    """The definition of a name in a file, through `a = b` and imports of files next to it.

    A text, the statement in a few words, if only running the file would show what the name is bound to. None if the
    file does not bind it to a callable. Raises as module_of.
    """
    module = module_of(path)
    for _ in range(_MOST_STEPS):
        bound = module.bound.get(name, [])
        if not bound:
            return f"{os.path.basename(path)} may bind it" if _may_bind(module) else None
        node, depends = bound[-1]
        if depends and len(bound) > 1:
            return _line_text(module, name, node)
        if isinstance(node, _Read):
            return Definition(module.path, module.tree, node)
        if isinstance(node, _NO_CALLABLES):
            return None
        if isinstance(node, ast.Name) and node.id != name and len(module.bound.get(node.id, [])) == 1:
            name = node.id
        elif isinstance(node, ast.ImportFrom) and (file := _file_of_import(module.path, node)) is not None:
            original = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), name)
            try:
                beside = module_of(file)
            except (OSError, SyntaxError, ValueError):
                return _line_text(module, name, node)
            if original not in beside.bound:
                return _line_text(module, name, node)
            module, name = beside, original
        else:
            return _line_text(module, name, node)
    return "many names stand for each other"


def _line_text(module: Module, name: str, node: ast.AST) -> str:
    text = (f"{name} = " if isinstance(node, ast.expr) else "") + " ".join(ast.unparse(node).split())
    return f"{os.path.basename(module.path)}:{getattr(node, 'lineno', 1)}: {text[:60]}"


def _may_bind(module: Module) -> bool:
    """Whether a file may bind names in a rare way; only searched if no other binding was found."""
    return module.is_open or any(
        isinstance(node, ast.Global | ast.NamedExpr | ast.Match)
        or getattr(node, "id", getattr(node, "name", None)) in _BINDS_UNSEEN
        for node in ast.walk(module.tree)
    )


def _file_of_import(path: str, node: ast.ImportFrom) -> str | None:
    """The file that an import names: in the same package or, outside of packages, next to it; None for any other."""
    folder, parts = os.path.dirname(path), (node.module or "").split(".")
    if node.level == 0 and os.path.isfile(os.path.join(folder, "__init__.py")):
        while os.path.basename(folder) != parts[0]:
            if (folder := os.path.dirname(folder)) == os.path.dirname(folder):
                return None
        parts = parts[1:]
    elif node.level == 0 and len(parts) > 1:
        return None
    for _ in range(node.level - 1):
        folder = os.path.dirname(folder)
    base = os.path.join(folder, *parts).rstrip(os.sep)
    return next((file for file in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.isfile(file)), None)


@lru_cache(maxsize=16)
def _module(path: str, *_stamp: int) -> Module:
    tree = source_tree(path)
    bound: dict[str, list[tuple[ast.AST, bool]]] = {}
    for name, node, depends in _bindings(tree.body, False):
        bound.setdefault(name, []).append((node, depends))
    return Module(path, tree, bound, bound.pop("*", None) is not None)


def _bindings(body: list[ast.stmt], depends: bool) -> Iterator[tuple[str, ast.AST, bool]]:
    """Each name that statements bind, in order, with its value; "*" for names that an import does not show."""
    for node in body:
        if isinstance(node, _Defined):
            yield node.name, node, depends
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else _first(alias)), node, depends
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                whole = isinstance(target, ast.Name)
                yield from ((name, node.value if whole else node, depends) for name in _targets(target))
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from ((name, node.value, depends) for name in _targets(node.target))
        elif isinstance(node, ast.Delete):
            yield from ((target.id, node, depends) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.If) and is_never_entered(node):
            yield from _bindings(node.orelse, depends)
        elif not isinstance(node, ast.Expr):
            yield from _of_block(node)


def _first(alias: ast.alias) -> str:
    return alias.name.partition(".")[0]


def _of_block(node: ast.stmt) -> Iterator[tuple[str, ast.AST, bool]]:
    """The bindings of a statement itself, and of those within it."""
    targets = [getattr(node, "target", None), *(item.optional_vars for item in getattr(node, "items", ()))]
    for target in targets:
        if target is not None:
            yield from ((name, node, True) for name in _targets(target))
    for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for block in ("body", "orelse", "finalbody"):
            yield from _bindings(getattr(part, block, []), True)


def _targets(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


Kind = Literal["positional only", "plain", "*", "**"]


class Parameter(NamedTuple):
    """One parameter of a function. hint: its type hint, None without one."""

    name: str
    kind: Kind
    hint: ast.expr | None
    has_default: bool

    @property
    def is_needed(self) -> bool:
        """Whether a call without it raises TypeError."""
        return self.kind in ("positional only", "plain") and not self.has_default


def parameters_of(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """The parameters in the order of the signature."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    with_default = by_place[len(by_place) - len(arguments.defaults) :]
    with_default += [arg for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    kinds: list[tuple[ast.arg | None, Kind]] = [
        *((parameter, "positional only") for parameter in arguments.posonlyargs),
        *((parameter, "plain") for parameter in arguments.args),
        (arguments.vararg, "*"),
        *((parameter, "plain") for parameter in arguments.kwonlyargs),
        (arguments.kwarg, "**"),
    ]
    return tuple(
        Parameter(arg.arg, kind, arg.annotation, arg in with_default) for arg, kind in kinds if arg is not None
    )


class Function(NamedTuple):
    """A function as its source declares it. parameters: without *args and **kwargs; required: without a default."""

    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_any_keyword: bool
    positional_only: tuple[str, ...]


def function_of(node: FunctionNode | ast.Lambda) -> Function:
    """The parameters of a function."""
    named = [parameter for parameter in parameters_of(node.args) if parameter.kind not in ("*", "**")]
    return Function(
        parameters=tuple(parameter.name for parameter in named),
        required=tuple(parameter.name for parameter in named if parameter.is_needed),
        takes_any_keyword=node.args.kwarg is not None,
        positional_only=tuple(parameter.name for parameter in named if parameter.kind == "positional only"),
    )


def reads_any_keyword(node: FunctionNode | ast.Lambda) -> bool:
    """Whether a function reads its **kwargs."""
    name = None if node.args.kwarg is None else node.args.kwarg.arg
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


def makes_a_reward(node: ast.AST) -> bool:
    """Whether a function is a factory: TRL cannot call it, so it is called once, with the options, and returns the
    reward.

    True for a class, and for a function that takes neither prompts nor completions nor any keyword.
    """
    if isinstance(node, ast.ClassDef):
        return True
    assert isinstance(node, FunctionNode | ast.Lambda)
    function = function_of(node)
    return not function.takes_any_keyword and set(function.parameters).isdisjoint(CALLED_WITH[:3])
