"""What a recipe's local files say without being run: paths, the first row of data, functions of a reward file."""

import ast
import csv
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

DATA_FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
LARGEST_ROW = 4 * 1024 * 1024
LARGEST_SOURCE = 1024 * 1024


def local_path(value: str, directory: str) -> str | None:
    """The absolute path when the value names a local file or folder, None when it is a hub id.

    ./, ../, /, ~ and the suffixes of data files are local by their form; anything else is local if it exists in
    `directory`.
    """
    path = os.path.normpath(os.path.join(directory, os.path.expanduser(value)))
    by_form = value.startswith(("./", "../", "/", "~")) or value in (".", "..")
    if by_form or os.path.splitext(value)[1].lower() in DATA_FORMATS or os.path.exists(path):
        return path
    return None


def data_format(path: str) -> str | None:
    """ "json", "csv" or "parquet" by the file's suffix, None for anything else."""
    return DATA_FORMATS.get(os.path.splitext(path)[1].lower())


def columns_of(path: str) -> tuple[str, ...] | None:
    """The columns of a local data file, from the first row of .jsonl and the header of .csv; None when not known.

    Raises ValueError with a reason when the first row cannot be read.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind == ".jsonl":
        return _jsonl_columns(path)
    if kind == ".csv":
        with open(path, encoding="utf-8", newline="", errors="replace") as file:
            header = next(csv.reader([file.readline(LARGEST_ROW)]), [])
        if not header:
            raise ValueError("it is empty")
        return tuple(header)
    return None


def _jsonl_columns(path: str) -> tuple[str, ...]:
    with open(path, encoding="utf-8", errors="replace") as file:
        line = file.readline(LARGEST_ROW)
    if not line.strip():
        raise ValueError("it is empty" if not line else "its first line is blank")
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"its first line is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("its first line is no JSON object")
    return tuple(str(key) for key in row)


@dataclass(frozen=True, slots=True)
class Function:
    """A function as its source declares it. required: parameters without a default, less *args and **kwargs.

    is_decorated: what is called may have another signature.
    """

    name: str
    line: int
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_any_keyword: bool
    positional_only: tuple[str, ...] = ()
    is_decorated: bool = False


def functions_of(path: str) -> dict[str, Function]:
    """The functions at the top level of a Python file, read and never run.

    Raises OSError, and SyntaxError or ValueError for what is no Python source.
    """
    with open(path, encoding="utf-8") as file:
        source = file.read(LARGEST_SOURCE + 1)
    if len(source) > LARGEST_SOURCE:
        raise ValueError("it is larger than 1 MiB")
    tree = ast.parse(source)
    return {
        node.name: _function(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _required(arguments: Sequence[ast.arg], defaults: int) -> list[str]:
    return [a.arg for a in arguments[: len(arguments) - defaults]]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    keyword_required = [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return Function(
        name=node.name,
        line=node.lineno,
        parameters=tuple(a.arg for a in [*positional, *arguments.kwonlyargs]),
        required=(*_required(positional, len(arguments.defaults)), *keyword_required),
        takes_any_keyword=arguments.kwarg is not None,
        positional_only=tuple(a.arg for a in arguments.posonlyargs),
        is_decorated=bool(node.decorator_list),
    )
