"""Texts of JSON files stay texts: pyarrow makes a time of one that looks like a date, and no answer equals a time.

"2029-09-26" of a .jsonl file became 2029-09-26 00:00:00 where a whole chunk of 10 MB had dates, and stayed text
elsewhere. JSON has no times, and a CSV file keeps its texts.
Source: pyarrow 23 json (type inference), datasets 5.2.0 packaged_modules/json/json.py.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json
from datasets.packaged_modules.json import json as loader


@contextlib.contextmanager
def texts_stay() -> Iterator[None]:
    """Within it `load_dataset` reads JSON so. It must not find rows that were loaded otherwise in its cache."""
    before = loader.paj
    loader.paj = _Reader()
    try:
        yield
    finally:
        loader.paj = before


class _Reader:
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
