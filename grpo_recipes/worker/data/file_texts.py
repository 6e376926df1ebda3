"""Keeps the values of data files as written, where `datasets` would change them.

JSON: pyarrow reads texts that look like dates as times. "2029-09-26" became 2029-09-26 00:00:00 if a whole 10 MB chunk
had only dates, and stayed text elsewhere. In a file that is one list, pandas' ujson kept ten decimal places: 1e-12
became 0.0. If a column had texts and numbers, also within lists and objects, "1.50" became 1.5 and "true" became True.
CSV: pandas reads 007 as 7, and each 2 as 2.0 in a column with an empty cell.
Source: pyarrow 23 json (type inference), pandas 3.0 read_csv and ujson, datasets 5.2.0 packaged_modules/json and csv,
utils/json.py.
"""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
from datasets import Value
from datasets.packaged_modules.json import json as loader

from grpo_recipes.worker._shared.replacing import replace

_PADDED = r"^\s*[+-]?0[0-9]"
_INEXACT = r"[0-9]{16}"
"""An integer that float64 cannot represent."""
_MIXED = re.compile(r"JSON parse error: Column\(/([^/)]+)\) changed from \w+ to \w+")


def _quote(value: Any, path: list[str | int]) -> Any:
    """Encodes the values at a path as JSON; datasets' json_encode_field leaves texts unquoted that are valid JSON."""
    if value is None or not path:
        return None if value is None else json.dumps(value)
    first, *rest = path
    if first == 0:
        return [_quote(each, rest) for each in value]
    return {**value, first: _quote(value.get(first), rest)}


_EXACT = {"ujson_loads": json.loads, "ujson_dumps": json.dumps, "json_encode_field": _quote}


def _exact(*modules: Any) -> list[tuple[Any, str, Any]]:
    """Returns each function of the modules that loses digits or quotes, with its replacement."""
    return [(module, *pair) for module in modules for pair in _EXACT.items() if hasattr(module, pair[0])]


# Dataset.map encodes columns of the type Json again.
for _change in _exact(datasets.arrow_writer, datasets.features.features):
    replace(*_change)
if hasattr(datasets, "Json"):
    replace(datasets.Json, "encode_example", lambda _, value: _quote(value, []))


@contextlib.contextmanager
def texts_stay() -> Iterator[set[str]]:
    """Makes `load_dataset` keep JSON texts inside a with block. Its cache must not contain rows loaded outside of one.

    Yields a set that gets the columns with texts and numbers, whose numbers became texts.
    """
    mixed: set[str] = set()
    changes = [(loader, "paj", _JsonReader(mixed)), *_exact(loader, datasets.utils.json)]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for change in changes:
        replace(*change)
    try:
        yield mixed
    finally:
        for change in before:
            replace(*change)


class _JsonReader:
    """pyarrow.json with a read_json that keeps texts."""

    def __init__(self, mixed: set[str]) -> None:
        self._mixed = mixed

    def __getattr__(self, name: str) -> Any:
        return getattr(arrow_json, name)

    def read_json(self, file: Any, **options: Any) -> pa.Table:
        try:
            table = arrow_json.read_json(file, **options)
        except pa.ArrowInvalid as problem:
            if (mixed := _MIXED.match(str(problem))) is None:
                raise
            file.seek(0)
            lines = _with_texts(file, mixed[1], problem)
            self._mixed.add(mixed[1])
            return self.read_json(lines, **options)
        texts = [field.with_type(_as_text(field.type)) for field in table.schema]
        changed = [text for text, field in zip(texts, table.schema, strict=True) if text.type != field.type]
        if not changed:
            return table
        file.seek(0)
        schema = arrow_json.ParseOptions(explicit_schema=pa.schema(changed))
        return arrow_json.read_json(file, parse_options=schema, **options).select(table.column_names)


def _with_texts(file: Any, column: str, problem: Exception) -> io.BytesIO:
    """Returns the lines of a JSON file whose column has texts and numbers, with each number as its text in the file.

    Raises the problem if the column also has lists or objects, or no text; `datasets` reads those.
    """
    lines, has_text = [], False
    for line in filter(bytes.strip, file.read().splitlines()):
        row = json.loads(line)
        value = json.loads(line, parse_int=str, parse_float=str).get(column)
        has_text = has_text or isinstance(row.get(column), str)
        if isinstance(value, bool):
            value = json.dumps(value)
        if not isinstance(value, str | None):
            raise problem
        lines.append(json.dumps({**row, column: value}))
    if not has_text:
        raise problem
    return io.BytesIO("\n".join(lines).encode())


def _as_text(type_: pa.DataType) -> pa.DataType:
    """Returns the type with times replaced by text, at any depth."""
    if pa.types.is_temporal(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(_as_text(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_text(field.type)) for field in type_])
    return type_


def as_written(rows: Any, path: Path, load: Callable[..., Any]) -> Any:
    """Returns the rows of a CSV file with whole numbers as integers, and text where a number would lose digits.

    That is a leading 0, or more digits than float64 holds. load: loads the rows again with the given `features`.
    """
    types = {name: getattr(feature, "dtype", "") for name, feature in rows.features.items()}
    numbers = [name for name, dtype in types.items() if dtype in ("int64", "float64")]
    if not numbers:
        return rows
    how = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(numbers, pa.string()), include_columns=numbers, strings_can_be_null=True
    )
    try:
        written = arrow_csv.read_csv(path, None, arrow_csv.ParseOptions(newlines_in_values=True), how)
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # only pandas can read this file
        return rows
    whole = [name for name in numbers if types[name] == "float64" and not _any_is(written[name], r"[^\s0-9+-]")]
    texts = [name for name in numbers if _any_is(written[name], _PADDED)]
    texts += [name for name in whole if _any_is(written[name], _INEXACT)]
    if texts:
        rows = load(features=type(rows.features)({**rows.features, **dict.fromkeys(texts, Value("string"))}))
    for name in whole:
        if name not in texts and len(written[name].drop_null()):
            rows = rows.cast_column(name, Value("int64"))
    return rows


def _any_is(texts: Any, pattern: str) -> bool:
    """Whether any text of a column matches; empty cells do not."""
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
