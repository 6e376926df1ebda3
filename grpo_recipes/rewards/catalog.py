"""Reads the parameters of the shipped rewards from their source, without importing them."""

import ast
import functools
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

TOKENS = "completion_ids"
"""The tokens of each completion, which TRL passes; not a column of the rows."""
LENGTH_OPTIONS = {"soft_overlong_punishment": "max_completion_len", "cosine_scaled": "max_len"}
"""The options that default to generation.max_completion_length."""
_RUNS_CODE = "code_tests"
"""The reward that only loads on a machine with a sandbox."""


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
    signatures = {name: shipped_reward(name) for name in sorted(_modules())}
    return {name: signature for name, signature in signatures.items() if signature is not None}


@functools.cache
def shipped_reward(name: str) -> Signature | None:
    """The signature of the function named as its file, None if there is none or it is not a reward."""
    if not name.isidentifier():  # never the path of an arbitrary name
        return None
    try:
        # Also from the archive of a run folder.
        source = __spec__.loader.get_data(os.path.join(os.path.dirname(__file__), f"{name}.py"))  # type: ignore[union-attr]
    except OSError:
        return None
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name and _takes_completions(node):
            return _read(node)
    return None


def why_options_refused(name: str, options: Mapping[str, object]) -> str | None:
    """Why a shipped reward refuses its options, None if it takes them: it is called without completions."""
    signature = shipped_reward(name)
    if signature is None or name == _RUNS_CODE:
        return None
    columns: dict[str, list[object]] = {column: [] for column in signature.columns if column not in options}
    tokens: dict[str, list[object]] = {TOKENS: []} if signature.reads_tokens else {}
    try:
        getattr(import_module(f"grpo_recipes.rewards.{name}"), name)([], **columns, **tokens, **options)
    except (ValueError, OverflowError, RecursionError) as problem:
        return str(problem).removeprefix(f"{name}: ")
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
