"""Reads the first rows of a data file with the values that templates get from `datasets`, without importing it."""

import csv
import json
import os
from collections.abc import Iterator
from functools import cache
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import yaml

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.regular_file import open_regular, read_text
from grpo_recipes.contract.findings.wording import one_line
from grpo_recipes.user_files.local_files import LARGEST_ROW, columns_of, data_format, is_one_array, near_path
from grpo_recipes.user_files.local_rows import row_of

MOST_ROWS = 500
LARGEST_ARRAY = 256 << 20
"""Bytes of a file with a single JSON array, which has to be read whole."""
_OTHER_SEPARATORS = (";", "\t", "|")


@cache
def words() -> dict[str, Any]:
    """Known names of columns, and words that stand for null."""
    file = Path(__file__).parents[1] / "data" / "own_data.yaml"
    known: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return known


class FirstRows(NamedTuple):
    """The first rows of a file in a folder, each with all columns: None for a missing value.

    The values of a .csv file are texts, which the training reads as numbers if all of a column are. is_all: the file
    has no others. class_names: for columns of numbers that `datasets` wrote as classes, the names of the classes. late:
    columns that the first row lacks, which validate does not know.
    """

    folder: Path
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    is_all: bool
    class_names: dict[str, list[str]]
    late: frozenset[str]


def read_rows(path: str) -> FirstRows:
    """The first rows of a .csv, .jsonl, .json or .parquet file. Raises Refusal if there are none."""
    kind = data_format(path)
    if not os.path.isfile(path) or kind is None:
        raise _no_data_file(path)
    names: dict[str, list[str]] = {}
    try:
        if kind == "parquet":
            rows, names = _read_parquet(path)
        else:
            rows = [*islice((_read_csv if kind == "csv" else _read_json)(path), MOST_ROWS + 1)]
        of_first = columns_of(path) if rows else None
    except UnicodeDecodeError as error:
        fix = f"iconv -f latin1 -t utf-8 {quote(path)} > {quote('utf8_' + os.path.basename(path))}, if it is in latin1"
        raise _unreadable(path, f"it is not UTF-8: {error.reason} at byte {error.start}", fix) from None
    except (OSError, ValueError, csv.Error) as error:
        raise _unreadable(path, one_line(str(getattr(error, "strerror", None) or error))) from None
    columns = tuple(dict.fromkeys(name for row in rows[:MOST_ROWS] for name in row))
    if not columns:
        raise _unreadable(path, "it has no rows", "a file with at least one row")
    whole = [{name: row.get(name) for name in columns} for row in rows[:MOST_ROWS]]
    late = frozenset(columns if of_first is not None else ()) - {*(of_first or ())}
    return FirstRows(Path(path).parent, columns, whole, len(rows) <= MOST_ROWS, names, late)


def _no_data_file(path: str) -> Refusal:
    if not os.path.exists(path):
        near = near_path(path, os.path.abspath(path))
        return Refusal.of(f"{path} does not exist", fix=f"--data {near}" if near else "--data with the path of a file")
    what = "a folder" if os.path.isdir(path) else "neither .csv, .jsonl, .json nor .parquet"
    return Refusal.of(f"{path} is {what}", fix="--data with a .csv, .jsonl or .parquet file")


def _unreadable(path: str, because: str, fix: str | None = None) -> Refusal:
    text = fix or "a .jsonl file with one JSON object per line, a .csv file with a header, or a .parquet file"
    return Refusal.of(f"{path} cannot be read as rows", because=because, fix=text)


def _read_json(path: str) -> Iterator[dict[str, Any]]:
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
        first = file.readline(LARGEST_ROW)
        if is_one_array(first):
            for number, row in enumerate(json.loads(read_text(path, LARGEST_ARRAY).removeprefix("\ufeff")), 1):
                if not isinstance(row, dict):
                    raise ValueError(f"item {number} is not a JSON object")
                yield row
            return
        for number, text in enumerate((first, *islice(_lines(file), 2 * MOST_ROWS)), 1):
            row = row_of(text) if text.strip() else {}
            if isinstance(row, str):
                raise ValueError(f"line {number}: {row}")
            if row:
                yield dict(row)


def _lines(file: TextIOWrapper) -> Iterator[str]:
    while line := file.readline(LARGEST_ROW):
        if len(line) == LARGEST_ROW:
            raise ValueError(f"it has a line of more than {LARGEST_ROW >> 20} MiB")
        yield line


def _read_csv(path: str) -> Iterator[dict[str, Any]]:
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(file))
        header = next((cells for cells in reader if cells), [])
        other = next((sign for sign in _OTHER_SEPARATORS if len(header) == 1 and sign in header[0]), None)
        if other is not None:
            program = f"import csv, sys; csv.writer(sys.stdout).writerows(csv.reader(sys.stdin, delimiter={other!r}))"
            new = quote(f"commas_{os.path.basename(path)}")
            fix = f'python -c "{program}" < {quote(path)} > {new}; then --data {new}'
            message = f"{path}: its columns are separated by {other!r}"
            raise Refusal.of(message, because="datasets reads commas", fix=fix)
        if twice := next((name for name in header if header.count(name) > 1), None):
            raise ValueError(f"its header has the column {twice!r} twice")
        for cells in filter(None, reader):
            if len(cells) > len(header):
                raise ValueError(f"line {reader.line_num} has {len(cells)} cells, and the header {len(header)}")
            values = [None if cell in words()["null_in_csv"] else cell for cell in cells]
            yield dict(zip(header, [*values, *[None] * (len(header) - len(cells))], strict=True))


def _read_parquet(path: str) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        because = "the package pyarrow, which reads .parquet files, is not installed"
        fix = "pip install pyarrow; or a .jsonl file"
        raise Refusal.of(f"{path} cannot be read", because=because, fix=fix) from None
    try:
        with ParquetFile(path) as file:
            batches = file.iter_batches(batch_size=MOST_ROWS + 1)
            rows: list[dict[str, Any]] = next((batch.to_pylist() for batch in batches), [])
            written = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    except ArrowException as error:
        raise ValueError(str(error)) from None
    features = json.loads(written).get("info", {}).get("features", {})
    return rows, {name: each["names"] for name, each in features.items() if isinstance(each, dict) and "names" in each}
