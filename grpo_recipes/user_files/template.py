"""What a jinja2 template asks for, read from its syntax tree and never rendered."""

import ast
import functools
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.user_files.model_config import cached_snapshot


class TemplateProblem(Exception):
    """The template cannot be parsed; the text says where and why."""


@functools.cache
def template_variables(text: str) -> frozenset[str]:
    """The variables that a template needs from outside. Raises TemplateProblem.

    jinja2 takes a tenth of a whole check to import; what most templates are, `{{ answer.split("#")[-1] | trim }}`, is
    read without it.
    """
    if "{" not in text:
        return frozenset()
    plain = _plain_variables(text)
    return _variables(text) if plain is None else plain


def _variables(text: str) -> frozenset[str]:
    """The variables that a template needs from outside, as jinja2 finds them. Raises TemplateProblem."""
    from jinja2 import TemplateSyntaxError, pass_context
    from jinja2.meta import TrackingCodeGenerator
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        # Otherwise jinja2 computes what is constant while it looks, and {{ 7 ** (9 ** 9) }} would never end. A finalize
        # that takes the context is not known before rendering, nor is what it would be called with.
        environment = ImmutableSandboxedEnvironment(finalize=pass_context(lambda _, value: value))
        reader: Any = TrackingCodeGenerator(environment)
        reader.optimizer = None
        reader.visit_EvalContextModifier = lambda node, frame: None  # {% autoescape 7 ** (9 ** 9) %}
        reader.visit(environment.parse(text))  # looks filters and tests up too
        return frozenset(reader.undeclared_identifiers)
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise TemplateProblem("it is nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise TemplateProblem(str(error)) from None


_EXPRESSION = re.compile(r"\{\{([^{}\\\n]{1,500})\}\}")
# Of jinja2's own filters; another one is left to jinja2, which knows whether it is there.
_FILTERS = frozenset(
    {"trim", "upper", "lower", "title", "string", "int", "float", "length", "first", "last", "replace"}
)
# Constants and keywords of jinja2 that Python reads as names.
_NOT_VARIABLES = frozenset({"true", "false", "none", "self", "caller", "super", "loop", "varargs", "kwargs"})


class _NotPlain(Exception):
    """The expression is not one that Python and jinja2 read alike."""


def _plain_variables(text: str) -> frozenset[str] | None:
    """The variables of a template of plain text and expressions that Python reads as jinja2 does; None for another."""
    parts = _EXPRESSION.split(text)
    if any("{" in part or "}" in part for part in parts[::2]):
        return None
    found: set[str] = set()
    try:
        for expression in parts[1::2]:
            if expression[0] in "-+" or expression[-1] in "-+":  # these strip the text around
                return None
            _collect(_parsed(expression.strip()), found)
    except (_NotPlain, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return frozenset(found)


def _parsed(expression: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "1or 2" is a SyntaxWarning, and said by nobody else
        return ast.parse(expression, mode="eval").body


def _collect(node: ast.expr, found: set[str]) -> None:
    """Adds the variables of an expression. Raises _NotPlain for what is more than names, items, calls and filters."""
    match node:
        case ast.Name(id=name) if name not in _NOT_VARIABLES and name.isascii():
            found.add(name)
        case ast.Constant(value=str() | int() as value, kind=None) if not isinstance(value, bool):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            pass
        case ast.Attribute(value=inner):
            _collect(inner, found)
        case ast.Subscript(value=inner, slice=place):
            _collect(inner, found)
            _collect(place, found)
        case ast.Call(func=ast.Attribute() as method, args=values, keywords=[]):
            for each in (method, *values):
                _collect(each, found)
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Name(id=name)) if name in _FILTERS:
            _collect(inner, found)
        case ast.BinOp(
            left=inner, op=ast.BitOr(), right=ast.Call(func=ast.Name(id=name), args=values, keywords=[])
        ) if name in _FILTERS:
            for each in (inner, *values):
                _collect(each, found)
        case _:
            raise _NotPlain


# What the files of a model say of its tokenizer: its chat template, and how answers are read.


_LARGEST_FILE_BYTES = 16 * 1024 * 1024
# Files that hold a template, or a tokenizer whose template is not in a file of transformers.
_UNREAD = ("tekken.json", "chat_template.json")


def chat_template_of(model: str, revision: str | None = None) -> str | None:
    """The chat template of a folder or of a hub id in the local cache: "" where it has none, None when not known.

    Of several named templates it is the one named default, as transformers takes it. Nothing is downloaded.
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


def brings_along(model: str, keys: Iterable[str], revision: str | None = None) -> bool | None:
    """Whether one of these keys says something in tokenizer_config.json; None when not known."""
    folder = _folder(model, revision)
    config = None if folder is None else _config(folder)
    return None if config is None else any(config.get(key) for key in keys)


def _folder(model: str, revision: str | None) -> Path | None:
    return Path(model) if os.path.isdir(model) else cached_snapshot(model, revision) if "/" in model else None


def _config(folder: Path) -> Mapping[str, object] | None:
    text = _text(folder / "tokenizer_config.json")
    try:
        config = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _default(template: object) -> str | None:
    if isinstance(template, list):
        named = {str(one.get("name")): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
        return template if isinstance(template, str) else None
    return template if isinstance(template, str) else "" if template is None else None


def _text(path: Path) -> str | None:
    try:
        return read_text(path, _LARGEST_FILE_BYTES)
    except (OSError, ValueError):
        return None
