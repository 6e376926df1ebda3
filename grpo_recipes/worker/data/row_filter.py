"""Applies `dataset.filter`, an expression in the templates' language, to many rows at once."""

import re
from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa
from jinja2 import StrictUndefined, meta, nodes

from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.limits import TooMuch, limit_block
from grpo_recipes.worker.data.templates import Sandbox, compile_template, refuse_null

TOKENS = "prompt_tokens"
_LONGEST_VALUE = 60
_ANSWERS = {"True": True, "False": False}
# Ends each row's answer, since the answers of many rows are rendered as one text.
_END = "\0"


class _NoAnswer(Exception):
    """A row's text that is neither True nor False."""


class _Null(StrictUndefined):
    """A null in a row: `is none` is true of it, `or` and `default` replace it, anything else raises."""

    __slots__ = ()

    def __bool__(self) -> bool:  # type: ignore[override]
        return False

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return other is None or isinstance(other, _Null) or bool(self._fail_with_undefined_error())

    def __repr__(self) -> str:
        return "null"

    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return not self == other

    __hash__ = StrictUndefined.__hash__  # type: ignore[assignment]


class _OfRows(Sandbox):
    """The templates' sandbox, in which a null also raises in comparisons: `level in (3, 4)`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:  # before dict methods: a row may have a column `items`
            return _with_hint(obj[attribute], attribute)
        return _with_hint(super().getattr(obj, attribute), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _with_hint(super().getitem(obj, argument), argument)


def _with_hint(value: Any, name: object) -> Any:
    return _Null(hint=f"{name} is null in this row") if value is None else value


class RowFilter:
    """The filter of a plan, over the columns of its data. Raises Refused if it cannot be parsed, or fails on a row.

    reads: the names that it uses. is_of_rendered: one of them is rendered by the recipe.
    """

    def __init__(self, data: Data, where: str, columns: Sequence[str]) -> None:
        assert data.filter is not None
        self._path, self._name, self._text = (where, "filter"), data.path or "the data", data.filter
        how = {"undefined": StrictUndefined, "finalize": refuse_null, "autoescape": False, "optimized": False}
        environment = _OfRows(**how)
        environment.tests["none"] = lambda value: value is None or isinstance(value, _Null)
        tree = compile_template(lambda: environment.parse(self._text), self._path, self._text)
        asked = compile_template(lambda: meta.find_undeclared_variables(tree), self._path, self._text)
        # A column may have the name of a jinja2 function, such as range.
        read = asked | {node.name for node in tree.find_all(nodes.Name)} & {*environment.globals} & {*columns}
        made = {TOKENS, *data.columns}
        if data.prompt is not None or data.system_prompt is not None:
            made.add("prompt")
        if missing := sorted(read - {*columns, *made}):
            self._refuse(f"{self._name} has no column {missing[0]}", f"its columns are {', '.join(sorted(columns))}")
        if TOKENS in read and TOKENS in columns:
            self._refuse(f"{self._name} has a column named {TOKENS}", "in a filter this name is the prompt's length")
        self.is_of_rendered = not read.isdisjoint(made)
        self.reads = sorted(read & {*columns, *made})
        each = nodes.For(
            nodes.Tuple([nodes.Name(name, "store") for name in self.reads], "store"),
            nodes.Name("rows", "load"),
            [*tree.body, nodes.Output([nodes.TemplateData(_END)])],
            [],
            None,
            False,
        )
        whole: Any = nodes.Template([each]).set_lineno(1).set_environment(environment)
        self._template = compile_template(lambda: environment.from_string(whole), self._path, self._text)

    def rows(self, table: pa.Table, counts: Sequence[int]) -> list[tuple[Any, ...]]:
        """Returns the values read from each row of a table. counts: prompt tokens, if the filter reads them."""
        columns = [counts if name == TOKENS else _values(table[name], name) for name in self.reads]
        return list(zip(*columns, strict=True)) if columns else [()] * len(table)

    def answers(self, rows: Sequence[tuple[Any, ...]], places: Sequence[int]) -> list[bool]:
        """Whether each row stays. places: of the rows in the data."""
        try:
            with limit_block():
                return self._answer(rows)
        except (Exception, TooMuch):  # on any error, go row by row to find the one to report
            return [self._of_one(row, index) for row, index in zip(rows, places, strict=True)]

    def reason(self, values: tuple[Any, ...]) -> str:
        """Returns why a row is left out, with the values that were read."""
        shown = (
            f"{name} {repr(value)[:_LONGEST_VALUE]}{self._why_never(name, value)}"
            for name, value in zip(self.reads, values, strict=True)
        )
        return ", ".join(["the filter is False", *shown])

    def _why_never(self, name: str, value: Any) -> str:
        """Returns that a text which the filter compares with a number never equals it."""
        with_number = rf"\b{re.escape(name)}\s*(?:==|in\s*[\[(])\s*-?\d"
        is_text = isinstance(value, str) and re.search(with_number, self._text) is not None
        return " is a text, which equals no number" if is_text else ""

    def _answer(self, rows: Sequence[tuple[Any, ...]]) -> list[bool]:
        """Returns the answer for each row. Raises _NoAnswer, and what the expression raises."""
        texts = [text.strip() for text in self._template.render(rows=rows).split(_END)[:-1]]
        for text in texts:
            if text not in _ANSWERS:
                raise _NoAnswer(text)
        if len(texts) != len(rows):
            raise _NoAnswer(_END)
        return [_ANSWERS[text] for text in texts]

    def _of_one(self, row: tuple[Any, ...], index: int) -> bool:
        fix: str | None = None
        try:
            with limit_block():
                return self._answer([row])[0]
        except _NoAnswer as problem:
            reason = f"the result is {repr(problem.args[0])[:_LONGEST_VALUE]}, neither True nor False"
            fix = f'compare, as in "{{{{ {next(iter(self.reads), "level")} == 3 }}}}"'
        except (Exception, TooMuch) as problem:  # an expression may raise anything
            reason = str(problem)
            null = next((name for name, value in zip(self.reads, row, strict=True) if isinstance(value, _Null)), None)
            if null is not None:
                fix = f'test for null first: "{{{{ {null} is not none and ... }}}}"'
        return self._refuse(f"{self._name}: the filter fails on row {index + 1}", reason, fix)

    def _refuse(self, what: str, because: str, fix: str | None = None) -> NoReturn:
        message, lines = f"{'.'.join(self._path)}: {what}", [f"= filter: {self._text}"]
        raise Refused(mistake(message, seen=lines, because=because, fix=fix, path=self._path))


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [_with_hint(value, name) for value in values] if column.null_count else values
