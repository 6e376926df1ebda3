"""Reads the parameters of the shipped rewards from their source, without importing them."""

import ast
import functools
import os
from pathlib import Path
from typing import NamedTuple

TOKENS = "completion_ids"
"""The tokens of each completion, which TRL passes; not a column of the rows."""


class Signature(NamedTuple):
    """The parameters of a reward function.

    columns: the row columns it reads. options: what the recipe may set, with defaults. required: options without a
    default, which the recipe must set. doc: the first line of its docstring. reads_tokens: it takes TOKENS. kinds: the
    annotation of each option.
    """

    columns: tuple[str, ...]
    options: dict[str, object]
    required: tuple[str, ...]
    doc: str
    reads_tokens: bool
    kinds: dict[str, str]


def shipped_rewards() -> dict[str, Signature]:
    """The shipped rewards by name, in alphabetical order."""
    found = {name: shipped_reward(name) for name in sorted(_modules())}
    return {name: signature for name, signature in found.items() if signature is not None}


@functools.cache
def shipped_reward(name: str) -> Signature | None:
    """The signature of the function named as its file, None if there is none or it is not a reward."""
    if name not in _modules():  # never the path of an arbitrary name
        return None
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name and _takes_completions(node):
            return _read(node)
    return None


@functools.cache
def _modules() -> frozenset[str]:
    """The names of the modules next to this one."""
    names = os.listdir(Path(__file__).parent)
    return frozenset(name.removesuffix(".py") for name in names if name.endswith(".py"))


def _takes_completions(function: ast.FunctionDef) -> bool:
    return [argument.arg for argument in function.args.args] == ["completions"]


def _read(function: ast.FunctionDef) -> Signature:
    """Keywords with a default are options; of the others, lists are columns or TOKENS, the rest is required."""
    columns: list[str] = []
    required: list[str] = []
    options: dict[str, object] = {}
    kinds: dict[str, str] = {}
    reads_tokens = False
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        kind = "" if argument.annotation is None else ast.unparse(argument.annotation)
        if argument.arg == TOKENS:
            reads_tokens = True
        elif default is None and kind.startswith("list["):
            columns.append(argument.arg)
        else:
            kinds[argument.arg] = kind
            if default is None:
                required.append(argument.arg)
            else:
                options[argument.arg] = ast.literal_eval(default)
    doc = (ast.get_docstring(function) or "").partition("\n")[0]
    return Signature(tuple(columns), options, tuple(required), doc, reads_tokens, kinds)
