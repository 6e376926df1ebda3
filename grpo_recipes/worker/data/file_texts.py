"""Values of data files stay what the file says, where `datasets` makes something of them that no answer equals.

JSON: pyarrow makes a time of a text that looks like a date. "2029-09-26" became 2029-09-26 00:00:00 where a whole chunk
of 10 MB had dates, and stayed text elsewhere.
CSV: pandas makes 7 of 007, and 2.0 of each 2 in a column where a cell is empty.
Source: pyarrow 23 json (type inference), pandas 3.0 read_csv, datasets 5.2.0 packaged_modules/json and csv.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
from datasets import Value
from datasets.packaged_modules.json import json as loader

_PADDED = r"^\s*[+-]?0[0-9]"
_INEXACT = r"[0-9]{16}"
"""A whole number that float64 does not hold."""


@contextlib.contextmanager
def texts_stay() -> Iterator[None]:
    """Within it `load_dataset` reads JSON so. It must not find rows that were loaded otherwise in its cache."""
    before = loader.paj
    loader.paj = _JsonReader()
    try:
        yield
    finally:
        loader.paj = before


class _JsonReader:
    """pyarrow.json, with another read_json."""

    def __getattr__(self, name: str) -> Any:
        return getattr(arrow_json, name)

    def read_json(self, file: Any, **options: Any) -> pa.Table:
        table = arrow_json.read_json(file, **options)
        texts = [field.with_type(_as_text(field.type)) for field in table.schema]
        changed = [text for text, field in zip(texts, table.schema, strict=True) if text.type != field.type]
        if not changed:
            return table
        file.seek(0)
        schema = arrow_json.ParseOptions(explicit_schema=pa.schema(changed))
        return arrow_json.read_json(file, parse_options=schema, **options).select(table.column_names)


def _as_text(type_: pa.DataType) -> pa.DataType:
    """The type with text in the place of times, at any depth."""
    if pa.types.is_temporal(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(_as_text(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_text(field.type)) for field in type_])
    return type_


def as_written(rows: Any, path: Path, load: Callable[..., Any]) -> Any:
    """The rows of a CSV file with whole numbers as such, and numbers that begin with a 0 or are too long as texts.

    load: loads them again with the `features` that it is given.
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
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # of a file that pandas alone can read
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
    """Whether a text of a column matches; an empty cell does not."""
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
