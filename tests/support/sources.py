"""Parses the package's sources once for all tests that read them."""

import ast
import functools
from pathlib import Path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Returns the syntax tree of a Python file. Do not change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Returns all nodes of a Python file, outer nodes first."""
    return tuple(ast.walk(tree_of(path)))
