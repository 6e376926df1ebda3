"""Finds the files next to a reward file that it imports, and that must travel with it. Nothing is run."""

import ast
import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

from grpo_recipes.user_files.local_files import is_never_entered, source_tree

MOST_FILES = 32


def modules_beside(path: str) -> dict[str, str]:
    """File name -> absolute path of every module next to a reward file that it imports, directly or indirectly.

    Modules of the standard library take precedence over files. Raises OSError, SyntaxError or ValueError, naming the
    file, for invalid Python source and for imports that cannot travel: a package, a relative import, too many files.
    """
    folder = os.path.dirname(os.path.abspath(path))
    files: dict[str, str] = {}
    waiting = [os.path.basename(path)]
    while waiting:
        file = waiting.pop()
        for module in _modules(_tree(os.path.join(folder, file), file), file):
            name = f"{module}.py"
            beside = os.path.join(folder, name)
            if os.path.isfile(os.path.join(folder, module, "__init__.py")):
                raise ValueError(f"{file} imports the package {module} next to it, and only single files are copied")
            if name not in files and os.path.exists(beside):
                files[name] = beside
                waiting.append(name)
        if len(files) > MOST_FILES:
            raise ValueError(f"{os.path.basename(path)} imports more than {MOST_FILES} files next to it")
    return dict(sorted(files.items()))


def _tree(path: str, file: str) -> ast.Module:
    try:
        return source_tree(path)
    except SyntaxError as error:
        raise ValueError(f"{file}:{error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _running(tree: ast.Module) -> list[ast.AST]:
    """The statements at any depth of a file, except those that never run in a training."""
    statements: list[ast.AST] = [tree]
    for node in statements:
        is_left_out = isinstance(node, ast.If) and is_never_entered(node)
        for block in ("orelse",) if is_left_out else ("body", "handlers", "orelse", "finalbody", "cases"):
            statements += getattr(node, block, ())
    return statements


@lru_cache(maxsize=16)
def _modules(tree: ast.Module, file: str) -> tuple[str, ...]:
    """The top-level names of the modules that a file imports at any depth, in order."""
    modules = []
    running = _running(tree)
    tried = {id(child) for node in running if isinstance(node, ast.Try) and node.handlers for child in node.body}
    for node in running:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level and id(node) in tried:
                continue  # the handler of its ImportError runs instead
            if node.level:
                raise ValueError(f"{file}:{node.lineno}: a relative import, but a reward file is not in a package")
            names = [node.module or ""]
        for name in names:
            first = name.partition(".")[0]
            if first not in sys.stdlib_module_names:
                modules.append(first)
    return tuple(modules)


def reward_names(rewards: Sequence[Mapping[str, object]]) -> list[str]:
    """The name of each reward: of the shipped one, of the function, the last part of a model's path, or "judge".

    Repeated names get a number.
    """
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for reward in rewards:
        free = name = _name(reward)
        while free in names:
            numbers[name] = numbers.get(name, 1) + 1
            free = f"{name}_{numbers[name]}"
        names[free] = None
    return list(names)


def names_module(python: str) -> bool:
    """Whether `python` of a reward names a module of a package, `trl.rewards:f`, rather than a file, `rewards.py:f`."""
    return not python.rpartition(":")[0].endswith(".py")


def _name(reward: Mapping[str, object]) -> str:
    if reward.get("python") is not None:
        return str(reward["python"]).rpartition(":")[2]
    if reward.get("judge") is not None:
        return "judge"
    return str(reward["name"]) if reward.get("model") is None else os.path.basename(str(reward["model"]))
