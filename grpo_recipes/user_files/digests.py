"""Computes the sha256 of files, and caches the digests of large ones until they change.

A cached digest is valid while path, inode, size and both timestamps of the file are the same; programs that reset the
modification time cannot reset the status change time.
"""

import codecs
import glob
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from grpo_recipes.contract.files.own_cache import read_cache, write_cache
from grpo_recipes.contract.files.regular_file import file_sha256, files_sha256, open_regular, read_text

KEPT_FROM_BYTES = 4 * 1024**2
"""Reading a smaller file again is faster than looking up its digest."""
READ_FOR_A_PLAN_BYTES = 64 * 1024**2
"""The limit for reading a folder for a plan; writing a run folder reads all of it."""
UNSETTLED_NS = 2 * 10**9
MOST_FILES = 100_000
_SYSTEM = ("", "bin", "boot", "dev", "etc", "home", "lib", "proc", "root", "run", "sys", "tmp", "usr", "var")
SYSTEM_FOLDERS = frozenset(f"/{name}" for name in _SYSTEM)
_CACHE = "digests.json"
_LARGEST_CACHE_BYTES = 16 * 1024**2
_LARGEST_TEXT_BYTES = 16 * 1024**2
_READ_AT_ONCE = 1 << 18
_LEFT_OUT = (".md", ".pyc")


class TooManyFiles(OSError):
    """A folder has too many files to be a model or a data set."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """sha256 of the bytes; rows: non-blank lines, None if they were not counted."""

    sha256: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class FolderContent:
    """sha256 over names and digests; files: the digest of each, by its path below the folder."""

    sha256: str
    files: dict[str, str]


def file_content(path: str, *, count_rows: bool = False) -> FileContent:
    """The content of a file. Raises OSError if it cannot be read."""
    before = _stamp(path)
    is_kept = before[1] >= KEPT_FROM_BYTES
    known = _read_digests().get(path) if is_kept else None
    if known is not None and known[:-2] == before and (not count_rows or known[-1] is not None):
        return FileContent(str(known[-2]), known[-1] if count_rows else None)  # type: ignore[arg-type]
    content = _read(path, count_rows)
    if is_kept and _stamp(path) == before and time.time_ns() - max(before[2:]) > UNSETTLED_NS:
        _keep(path, [*before, content.sha256, content.rows])
    return content


def folder_content(folder: str, *, most_bytes: int | None = None) -> FolderContent | None:
    """The content of all files below a folder, except hidden ones, Markdown and compiled Python.

    most_bytes: returns None if more would have to be read; cached digests need no reading. Raises OSError if a file
    cannot be read.
    """
    try:
        paths = _files(folder)
    except TooManyFiles:
        if most_bytes is None:
            raise
        return None
    if most_bytes is not None and sum(bytes_to_read(path) for path in paths.values()) > most_bytes:
        return None
    files = {name: file_content(path).sha256 for name, path in sorted(paths.items())}
    return FolderContent(files_sha256(files.items()), files)


def text_content(path: str) -> FileContent:
    """The content of a text with its line ends normalized to "\\n". Raises OSError, ValueError."""
    text = read_text(path, _LARGEST_TEXT_BYTES).replace("\r\n", "\n").replace("\r", "\n")
    return FileContent(hashlib.sha256(text.encode()).hexdigest())


def _files(folder: str) -> dict[str, str]:
    paths: dict[str, str] = {}
    if os.path.realpath(folder) in SYSTEM_FOLDERS:
        raise TooManyFiles(None, "it is a folder of the system, not a model or data", folder)
    for parent, folders, names in os.walk(folder):
        if len(paths) > MOST_FILES:
            raise TooManyFiles(None, f"it holds more than {MOST_FILES:,} files", folder)
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for name in names:
            path = os.path.join(parent, name)
            if not name.startswith(".") and not name.endswith(_LEFT_OUT) and os.path.isfile(path):
                paths[os.path.relpath(path, folder)] = path
    return paths


def bytes_to_read(path: str) -> int:
    """The bytes of a file, 0 if its digest is cached. Raises OSError."""
    stamp = _stamp(path)
    if stamp[1] < KEPT_FROM_BYTES:
        return stamp[1]
    known = _read_digests().get(path)
    return 0 if known is not None and known[:-2] == stamp else stamp[1]


def _stamp(path: str) -> list[int]:
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _read(path: str, count_rows: bool) -> FileContent:
    if not count_rows:
        return FileContent(file_sha256(path))
    digest, rows, is_row, is_array = hashlib.sha256(), 0, False, False
    with open_regular(path) as file:
        while content := file.read(_READ_AT_ONCE):  # a line may be as long as the file
            is_array = is_array or (not (rows or is_row) and content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[")
            digest.update(content)
            first, *others = content.split(b"\n")
            is_row = is_row or bool(first.strip())
            for line in others:
                rows += is_row
                is_row = bool(line.strip())
    return FileContent(digest.hexdigest(), None if is_array else rows + is_row)


@cache
def _read_digests() -> dict[str, list[int | str | None]]:
    """The cached digests: path -> the stamp, the digest, the rows."""
    content = read_cache(_CACHE, _LARGEST_CACHE_BYTES)
    if not isinstance(content, dict):
        return {}
    return {name: row for name, row in content.items() if isinstance(row, list) and len(row) == 6}


def _keep(path: str, row: list[int | str | None]) -> None:
    known = _read_digests()
    known[path] = row
    write_cache(_CACHE, known)


CARD = "README.md"
MOST_OUTSIDE = 10_000
_LARGEST_CARD_BYTES = 1 << 20
_READ_KEYS = ("configs", "dataset_info")


def data_folder_content(folder: str, *, most_bytes: int | None = None) -> FolderContent | None:
    """The content of a data folder as in `folder_content`, with the files that its card makes `datasets` read.

    A card that says nothing about data has no effect. Files that are outside the folder, hidden or behind a link count
    if the card names them. Raises OSError if a file cannot be read.
    """
    content = folder_content(folder, most_bytes=most_bytes)
    matter = front_matter(folder)
    if content is None or not matter:
        return content
    files = dict(content.files)
    files[f"{CARD} (front matter)"] = hashlib.sha256(matter.encode("utf-8", "surrogateescape")).hexdigest()
    others = [path for path in _find_data_files(folder, matter) if os.path.relpath(path, folder) not in files]
    if most_bytes is not None and sum(map(bytes_to_read, others)) > most_bytes:
        return None
    files |= {os.path.relpath(path, folder): file_content(path).sha256 for path in others}
    if files == content.files:
        return content
    return FolderContent(files_sha256(sorted(files.items()), errors="surrogateescape"), files)


def front_matter(folder: str) -> str:
    """The YAML between the first two lines of dashes, "" if it is missing or says nothing about data."""
    try:
        lines = read_text(os.path.join(folder, CARD), _LARGEST_CARD_BYTES).splitlines()
    except (OSError, ValueError):
        return ""
    if not lines or lines[0].strip() != "---" or "---" not in (rest := [line.strip() for line in lines[1:]]):
        return ""
    text = "\n".join(lines[1 : rest.index("---") + 1])
    return text if any(line.startswith(_READ_KEYS) for line in text.splitlines()) else ""


def _find_data_files(folder: str, matter: str) -> list[str]:
    """The local files that the card's data_files name."""
    import yaml

    try:
        content = yaml.load(matter, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []  # datasets cannot read it either
    paths: dict[str, None] = {}
    for base, pattern in _patterns(content):
        if "://" not in pattern:
            matches = glob.iglob(os.path.join(folder, base, pattern), recursive=True, include_hidden=True)
            paths.update(dict.fromkeys(islice(matches, MOST_OUTSIDE)))
    return sorted(path for path in paths if os.path.isfile(path))


def _patterns(content: object) -> Iterator[tuple[str, str]]:
    """data_dir, "" without one, and each pattern of data_files: texts, lists of them, by split, with a path."""
    configs = content.get("configs") if isinstance(content, dict) else None
    for config in configs if isinstance(configs, list) else []:
        if not isinstance(config, dict):
            continue
        base = config.get("data_dir")
        pending = [config.get("data_files", "**" if isinstance(base, str) else None)]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                yield base if isinstance(base, str) else "", value
            elif isinstance(value, dict):
                pending += [part for key, part in value.items() if key != "split"]
            elif isinstance(value, list):
                pending += value


CONFIGURATIONS = (
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "feature_extractor_config.json",
    "generation_config.json",
)
# Data of git and of the hub's client.
_NOT_OF_THE_MODEL = (".git", ".cache")
_LARGEST_CONFIGURATION_BYTES = 16 * 1024**2


def code_files(folder: str) -> dict[str, str]:
    """The sha256 of every file of a model's folder, hidden ones, compiled ones and those behind links included.

    Code that is allowed may load any of them. Raises OSError for a file that cannot be read, or for a disk of files.
    """
    digests: dict[str, str] = {}
    for path in _follow_links(folder, set()):
        if len(digests) > MOST_FILES:
            raise TooManyFiles(None, f"it holds more than {MOST_FILES:,} files", folder)
        digests[os.path.relpath(path, folder)] = file_content(path).sha256
    return digests


def _follow_links(folder: str, visited: set[str]) -> Iterator[str]:
    """The files below a folder, through links to folders too, each folder once."""
    real = os.path.realpath(folder)
    if real in visited:
        return
    visited.add(real)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            if name not in _NOT_OF_THE_MODEL:
                yield from _follow_links(path, visited)
        elif os.path.isfile(path):
            yield path


def repositories_in(folder: str) -> list[str]:
    """The repositories of the hub whose code the configurations of a folder name: "owner/name--module.Class"."""
    repositories: dict[str, None] = {}
    for name in CONFIGURATIONS:
        try:
            content = json.loads(read_text(os.path.join(folder, name), _LARGEST_CONFIGURATION_BYTES))
        except (OSError, ValueError, RecursionError):
            continue  # loading it says what is wrong with it
        for reference in _references(content):
            repositories.update(dict.fromkeys([reference.partition("--")[0]] if "--" in reference else []))
    return list(repositories)


def _references(content: object) -> Iterator[str]:
    """The values of every auto_map and custom_pipelines, however deep: a text, or a list of texts."""
    pending = [(content, False)]
    while pending:
        value, is_named = pending.pop()
        if isinstance(value, dict):
            pending += [(part, is_named or key in ("auto_map", "custom_pipelines")) for key, part in value.items()]
        elif isinstance(value, list):
            pending += [(part, is_named) for part in value]
        elif is_named and isinstance(value, str):
            yield value
