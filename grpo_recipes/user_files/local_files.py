"""Reads a recipe's local files without running them: paths, the first row of data, functions of a reward file."""

import ast
import csv
import json
import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from io import TextIOWrapper
from itertools import islice

from grpo_recipes.contract.files.regular_file import open_regular, read_text
from grpo_recipes.contract.findings.wording import nearest_words

DATA_FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
LARGEST_ROW = 4 * 1024 * 1024
MOST_COLUMNS = 10_000
_MOST_LISTED = 30
_LONGEST_NAME = 80
MOST_TOKENS = 80_000
"""Tokens of a source; a long reward has a few thousand."""
LARGEST_SOURCE = 1024 * 1024


def local_path(value: str, directory: str) -> str | None:
    """The absolute path if the value names a local file or folder, None if it is a hub id.

    ./, ../, /, ~ and the suffixes of data files always mean a local path; anything else is local if it exists in
    `directory`.
    """
    path = os.path.normpath(os.path.join(directory, os.path.expanduser(value)))
    by_form = value.startswith(("./", "../", "/", "~")) or value in (".", "..")
    if by_form or os.path.splitext(value)[1].lower() in DATA_FORMATS or os.path.exists(path):
        return path
    return None


def data_format(path: str) -> str | None:
    """The format by the file's suffix: "json", "csv" or "parquet"; None for anything else."""
    return DATA_FORMATS.get(os.path.splitext(path)[1].lower())


def columns_of(path: str) -> tuple[str, ...] | None:
    """The columns of a local data file, from the first row of .jsonl or the header of .csv; None if unknown.

    Column names appear in messages, so a link to a different kind of file, which could be any file of this machine, is
    not read. Raises ValueError with a reason if the first row cannot be read, OSError for anything but a regular file.
    """
    kind = os.path.splitext(path)[1].lower()
    if data_format(os.path.realpath(path)) != data_format(path):
        return None
    if kind == ".jsonl":
        return _jsonl_columns(path)
    if kind == ".csv":
        try:
            header = next(csv.reader([_first_line(path)]), [])
        except csv.Error as error:
            raise ValueError(f"its header cannot be read: {error}") from None
        if not header:
            raise ValueError("it is empty")
        if len(header) > MOST_COLUMNS:
            raise ValueError(f"its header has {len(header):,} columns, and {MOST_COLUMNS:,} are the most")
        return tuple(header)
    return None


def name_list(names: Sequence[str]) -> str:
    """Names for a message: the first few, each cut to a readable length."""
    some = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names[:_MOST_LISTED]]
    return ", ".join(some) + (f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else "")


def is_one_array(first_line: str) -> bool:
    """Whether a .jsonl file is one JSON array of rows, which `datasets` also reads; its rows are not examined here."""
    return re.match(r"\s*\[\s*(\{|$)", first_line) is not None


def _jsonl_columns(path: str) -> tuple[str, ...] | None:
    line = _first_line(path)
    if is_one_array(line):
        return None
    if not line.strip():
        raise ValueError("it is empty" if not line else "its first line is blank")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its first line is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("its first line is not a JSON object")
    if len(row) > MOST_COLUMNS:
        raise ValueError(f"its first row has {len(row):,} columns, and {MOST_COLUMNS:,} are the most")
    return tuple(str(key) for key in row)


def _first_line(path: str) -> str:
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="", errors="replace") as file:
        return file.readline(LARGEST_ROW)


def source_tree(path: str) -> ast.Module:
    """The syntax tree of a Python file, cached until the file changes; callers must not modify it.

    Raises OSError, and SyntaxError or ValueError for invalid Python source.
    """
    status = os.stat(path)
    return _tree(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _tree(path: str, *_stamp: int) -> ast.Module:
    source = read_text(path, LARGEST_SOURCE).removeprefix("\ufeff")  # Python ignores it, too
    if len(source) > MOST_TOKENS and _has_more_tokens(source, MOST_TOKENS):
        raise ValueError(f"it has more than {MOST_TOKENS:,} tokens")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's source, which is not ours to judge
            return ast.parse(source)
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply") from None


@lru_cache(maxsize=512)
def nodes_of(part: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a file or a function as ast.walk yields them, computed once for all callers.

    Excludes the Load and Store contexts, a third of all nodes.
    """
    nodes = [part]
    for node in nodes:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [inner for inner in value if isinstance(inner, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)
    return tuple(nodes)


def is_never_entered(node: ast.AST) -> bool:
    """Whether an `if` is for type checkers or for direct execution, so its body never runs in a training.

    False with `else: sys.modules[__name__] = ...`: in a lazy package, the body lists the names that the module has.
    """
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=rest):
            return not any(
                isinstance(expr, ast.Attribute) and expr.attr == "modules" for part in rest for expr in ast.walk(part)
            )
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value)])):
            return value == "__main__"
    return False


def _has_more_tokens(source: str, most: int) -> bool:
    """Whether a source has more tokens than `most`, each of which takes a kilobyte in a syntax tree.

    A long string counts as one.
    """
    import re

    if all(number < most for number, _ in enumerate(re.finditer(r"\w+|[^\w\s]", source))):
        return False
    import io
    import tokenize

    try:
        return any(number >= most for number, _ in enumerate(tokenize.generate_tokens(io.StringIO(source).readline)))
    except (tokenize.TokenError, SyntaxError):
        return False  # the parser reports it better


MOST_NEIGHBOURS = 200
_VARIABLE = r"\$\{?\w+\}?|%\w+%"
_CURLY = "\u2018\u2019\u201c\u201d\u00ab\u00bb"


def near_path(value: str, path: str, *, folders: bool = False) -> str | None:
    """A suggestion for a missing path: the value with the nearest existing names, None without one."""
    folder, _, name = path.rstrip("/").rpartition("/")
    missing = [name]
    while folder and not os.path.isdir(folder):
        folder, _, name = folder.rpartition("/")
        missing.insert(0, name)
    near: list[str] = []
    for count, name in enumerate(missing, 1):
        try:
            with os.scandir("/".join([folder, *near])) as entries:
                is_folder = folders or count < len(missing)
                names = [each.name for each in islice(entries, MOST_NEIGHBOURS) if each.is_dir() == is_folder]
        except OSError:
            return None
        nearest = [name] if name in names else nearest_words(name, names, cutoff=0.75) if names else []
        if not nearest:
            return None
        near += nearest
    head = value.rstrip("/").removesuffix("/".join(missing))
    return head + "/".join(near) if head != value.rstrip("/") else None


def path_slip(value: str) -> str | None:
    """Why a missing path is a mistake: a variable, or quotes that YAML does not treat as such."""
    if variable := re.search(_VARIABLE, value):
        return f"{variable[0]} is not expanded"
    if quote := next((character for character in value if character in _CURLY), None):
        return f"the quote {quote} is part of the path; YAML uses \" and '"
    return None
