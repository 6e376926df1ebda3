"""Finds the variables of a jinja2 template from its syntax tree, without rendering it."""

import ast
import functools
import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.user_files.model_config import snapshot_in_cache


class TemplateProblem(Exception):
    """A template cannot be parsed; the text says where and why."""


_GENERATION = r"\{%-?\s*(?:end)?generation\s*-?%\}"
"""The tags that transformers adds for the tokens of the assistant."""


@functools.cache
def template_variables(text: str, *, is_chat: bool = False) -> frozenset[str]:
    """The variables that a template needs from outside. Raises TemplateProblem.

    is_chat: it is a chat template, which may also have transformers' generation, and break and continue in loops.
    Importing jinja2 takes a tenth of a whole check, so the usual templates, `{{ answer.split("#")[-1] | trim }}`, are
    read without it.
    """
    if "{" not in text:
        return frozenset()
    plain = _plain_variables(text)
    if plain is not None:
        return plain
    return _variables(re.sub(_GENERATION, "", text), ["jinja2.ext.loopcontrols"]) if is_chat else _variables(text)


def _variables(text: str, extensions: Sequence[str] = ()) -> frozenset[str]:
    """The variables that a template needs, as jinja2 finds them. Raises TemplateProblem."""
    from jinja2 import TemplateSyntaxError, pass_context
    from jinja2.meta import TrackingCodeGenerator
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        # Otherwise jinja2 evaluates constants while it searches, and {{ 7 ** (9 ** 9) }} would never end. A finalize
        # function that takes the context prevents that.
        environment = ImmutableSandboxedEnvironment(
            extensions=extensions, finalize=pass_context(lambda _, value: value)
        )
        reader: Any = TrackingCodeGenerator(environment)
        reader.optimizer = None
        reader.visit_EvalContextModifier = lambda node, frame: None  # {% autoescape 7 ** (9 ** 9) %}
        reader.visit(environment.parse(text))  # also checks that filters and tests exist
        return frozenset(reader.undeclared_identifiers)
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise TemplateProblem("it is nested too deeply") from None
    except ValueError as error:  # a number with more digits than Python reads
        raise TemplateProblem(str(error)) from None


_EXPRESSION = re.compile(r"\{\{([^{}\\\n]{1,500})\}\}")
# Filters of jinja2 itself; others are left to jinja2, which knows whether they exist.
_FILTERS = frozenset(
    {"trim", "upper", "lower", "title", "string", "int", "float", "length", "first", "last", "replace"}
)
# Constants and keywords of jinja2 that Python reads as names.
_NOT_VARIABLES = frozenset({"true", "false", "none", "self", "caller", "super", "loop", "varargs", "kwargs"})


class _NotPlain(Exception):
    """Python and jinja2 would not read the expression in the same way."""


def _plain_variables(text: str) -> frozenset[str] | None:
    """The variables of a template whose expressions Python reads as jinja2 does; None for any other."""
    parts = _EXPRESSION.split(text)
    if any("{" in part or "}" in part for part in parts[::2]):
        return None
    variables: set[str] = set()
    try:
        for expression in parts[1::2]:
            if expression[0] in "-+" or expression[-1] in "-+":  # these strip the text around
                return None
            _collect(_parse(expression.strip()), variables)
    except (_NotPlain, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return frozenset(variables)


def _parse(expression: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "1or 2" is a SyntaxWarning
        return ast.parse(expression, mode="eval").body


def _collect(node: ast.expr, variables: set[str]) -> None:
    """Adds the variables of an expression. Raises _NotPlain for anything but names, items, calls and filters."""
    match node:
        case ast.Name(id=name) if name not in _NOT_VARIABLES and name.isascii():
            variables.add(name)
        case ast.Constant(value=str() | int() as value, kind=None) if not isinstance(value, bool):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            pass
        case ast.Attribute(value=inner):
            _collect(inner, variables)
        case ast.Subscript(value=inner, slice=index):
            _collect(inner, variables)
            _collect(index, variables)
        case ast.Call(func=ast.Attribute() as method, args=values, keywords=[]):
            for each in (method, *values):
                _collect(each, variables)
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Name(id=name)) if name in _FILTERS:
            _collect(inner, variables)
        case ast.BinOp(
            left=inner, op=ast.BitOr(), right=ast.Call(func=ast.Name(id=name), args=values, keywords=[])
        ) if name in _FILTERS:
            for each in (inner, *values):
                _collect(each, variables)
        case _:
            raise _NotPlain


_LARGEST_FILE_BYTES = 16 * 1024 * 1024
# Files that hold a template, or a tokenizer whose template is not in a file of transformers.
_UNREAD = ("tekken.json", "chat_template.json")


def chat_template_of(model: str, revision: str | None = None) -> str | None:
    """The chat template of a folder or of a cached hub id: "" if it has none, None if unknown.

    Of several named templates, the one named default, as transformers uses it. Downloads nothing.
    """
    folder = _folder(model, revision)
    if folder is None or any((folder / name).exists() for name in _UNREAD):
        return None
    template = _text(folder / "chat_template.jinja")
    if template is not None:
        return template
    if (folder / "chat_template.jinja").exists() or (folder / "additional_chat_templates").exists():
        return None
    config = _config(folder)
    return None if config is None else _default(config.get("chat_template"))


def tokenizer_config(model: str, revision: str | None = None) -> Mapping[str, object] | None:
    """The content of tokenizer_config.json; None if unknown."""
    folder = _folder(model, revision)
    return None if folder is None else _config(folder)


def _folder(model: str, revision: str | None) -> Path | None:
    return Path(model) if os.path.isdir(model) else snapshot_in_cache(model, revision) if "/" in model else None


def _config(folder: Path) -> Mapping[str, object] | None:
    text = _text(folder / "tokenizer_config.json")
    try:
        config = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _default(template: object) -> str | None:
    if isinstance(template, list):
        named = {str(entry.get("name")): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
        return template if isinstance(template, str) else None
    return template if isinstance(template, str) else "" if template is None else None


def _text(path: Path) -> str | None:
    try:
        return read_text(path, _LARGEST_FILE_BYTES)
    except (OSError, ValueError):
        return None
