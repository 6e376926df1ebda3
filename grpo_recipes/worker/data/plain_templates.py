"""Renders templates of text, columns and str methods for a whole batch at once; jinja2 renders row by row."""

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

import pyarrow as pa
from datasets import Value
from jinja2 import nodes
from jinja2.nodes import TemplateData
from jinja2.sandbox import ImmutableSandboxedEnvironment

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker.data.limits import TooMuch, limit_block

_FILTERS: Mapping[str, Callable[[str], str]] = {"trim": str.strip, "lower": str.lower, "upper": str.upper}
_METHODS = ("strip", "lstrip", "rstrip", "lower", "upper", "replace", "removeprefix", "removesuffix")
_TEXTS = (Value("string"), Value("large_string"))

Texts = Iterable[str]


class NotPlain(Exception):
    """A template, or a row for it, that needs jinja2."""


def batch_renderer(rows: Any, data: Data, longest: int) -> Callable[[pa.Table], pa.Table]:
    """Returns the function that adds `prompt` and `data.columns` to a table, with templates.rows_renderer's result.

    longest: maximum characters of a text. Raises NotPlain, as does the function, which may also raise anything else for
    a row that cannot fill a template.
    """
    is_plain = rows.format["type"] is None and rows.format["columns"] == rows.column_names
    if not is_plain or (data.prompt is None and data.system_prompt is not None):
        raise NotPlain
    parts = {name: _parts(text) for name, text in data.columns.items()}
    prompt = None if data.prompt is None else _parts(data.prompt)
    features = rows.features

    def render(table: pa.Table) -> pa.Table:
        def column(name: str) -> Texts:
            if features.get(name) not in _TEXTS or table[name].null_count:
                raise NotPlain
            texts: list[str] = table[name].to_pylist()
            return texts

        try:
            with limit_block():
                made = {name: _fill(of_name, column, len(table)) for name, of_name in parts.items()}
                prompts = None if prompt is None else _fill(prompt, column, len(table))
        except TooMuch:
            raise NotPlain from None
        if any(len(text) > longest for texts in (*made.values(), prompts or ()) for text in texts):
            raise NotPlain
        arrays = {name: pa.array(texts, pa.string()) for name, texts in made.items()}
        if prompts is not None:
            arrays["prompt"] = _prompts(prompts, data)
        for name, array in arrays.items():
            index = table.column_names.index(name) if name in table.column_names else None
            table = table.append_column(name, array) if index is None else table.set_column(index, name, array)
        return table

    return render


def _parts(text: str) -> list[Any]:
    try:
        with limit_block():
            body: list[Any] = ImmutableSandboxedEnvironment(keep_trailing_newline=True).parse(text).body
    except TooMuch:
        raise NotPlain from None
    if not all(isinstance(output, nodes.Output) for output in body):
        raise NotPlain
    return [node for output in body for node in output.nodes]


def _fill(parts: list[Any], column: Callable[[str], Texts], count: int) -> list[str]:
    texts = [repeat(part.data, count) if isinstance(part, TemplateData) else _texts(part, column) for part in parts]
    return list(map("".join, zip(*texts, strict=True))) if texts else [""] * count


def _texts(node: Any, column: Callable[[str], Texts]) -> Texts:
    """Returns the expression's text in each row. Raises NotPlain."""
    match node:
        case nodes.Name(name=name) if name != "self":
            return column(name)
        case nodes.Filter(node=inner, name=name, args=[], kwargs=[], dyn_args=None, dyn_kwargs=None) if (
            inner is not None and name in _FILTERS
        ):
            return map(_FILTERS[name], _texts(inner, column))
        case nodes.Getitem(node=nodes.Call(node=nodes.Getattr(node=inner, attr="split")) as call, arg=position):
            arguments, number = _constants(call), _number(position)
            return (text.split(*arguments)[number] for text in _texts(inner, column))
        case nodes.Call(node=nodes.Getattr(node=inner, attr=name)) if name in _METHODS:
            method, arguments = getattr(str, name), _constants(node)
            return (method(text, *arguments) for text in _texts(inner, column))
    raise NotPlain


def _constants(call: Any) -> list[Any]:
    are_constants = all(isinstance(argument, nodes.Const) for argument in call.args)
    if not are_constants or call.kwargs or call.dyn_args is not None or call.dyn_kwargs is not None:
        raise NotPlain
    return [argument.value for argument in call.args]


def _number(node: Any) -> int:
    match node:
        case nodes.Const(value=int() as number):
            return number
        case nodes.Neg(node=nodes.Const(value=int() as number)):
            return -number
    raise NotPlain


def _prompts(texts: list[str], data: Data) -> pa.Array:
    system = data.system_prompt
    if data.prompt_format != "conversational":
        return pa.array(texts if system is None else [f"{system}\n\n{text}" for text in texts], pa.string())
    contents = texts if system is None else [content for text in texts for content in (system, text)]
    roles = ["user"] if system is None else ["system", "user"]
    messages = [pa.array(roles * len(texts), pa.string()), pa.array(contents, pa.string())]
    ends = pa.array(range(0, len(contents) + 1, len(roles)), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(messages, ["role", "content"]))
