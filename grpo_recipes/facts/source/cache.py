"""Caches the facts of installed packages, so that the next command need not parse their source.

If anything is wrong with the cache, facts are read from source again.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.files.own_cache import read_cache, write_cache
from grpo_recipes.facts.source.package_facts import (
    MODULES,
    PackageFacts,
    package_folder,
    package_from_json_value,
    package_to_json_value,
)

_LARGEST_FILE_BYTES = 4_194_304


class Read(NamedTuple):
    """Facts of a package, and the files that they were read from."""

    facts: PackageFacts
    files: list[Path]


Known = Callable[[str, str, Path], Read | None]


def installed_facts(package: str, version: str, known: Known | None = None) -> PackageFacts | None:
    """The facts of the installed package, from the cache while no file has changed; None if unreadable.

    version: of the installed package, as looked up by the caller. known: called with package, version and folder before
    source is parsed.
    """
    folder = package_folder(package) if package in MODULES else None
    if folder is None:
        return None
    checksum = zlib.crc32(f"{folder}\0{version}".encode())
    name = f"facts/{package}-{checksum:08x}.json"
    cached = _load(name, folder)
    if cached is not None and cached.version == version:
        return cached
    read = (known(package, version, folder) if known is not None else None) or _read(package, version, folder)
    if read is not None:
        _store(name, folder, read.files, read.facts)
    return None if read is None else read.facts


def _read(package: str, version: str, folder: Path) -> Read | None:
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read_package import read_package  # only needed if nothing else has the facts

    source = PackageSource(package, folder)
    facts = read_package(source, version)
    return None if facts is None else Read(facts, [*source.files.values()])


def _load(name: str, folder: Path) -> PackageFacts | None:
    entry = read_cache(name, _LARGEST_FILE_BYTES)
    try:
        files = [Path(file) for file in entry["files"]]
        if not files or entry["files"] != _stamps(files) or entry["reader"] != _reader_stamps():
            return None
        if entry["folder"] != str(folder):
            return None
        return package_from_json_value(entry["facts"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _store(name: str, folder: Path, files: Iterable[Path], facts: PackageFacts) -> None:
    with contextlib.suppress(OSError):
        entry = {
            "folder": str(folder),
            "reader": _reader_stamps(),
            "files": _stamps(files),
            "facts": package_to_json_value(facts),
        }
        write_cache(name, entry)


def _reader_stamps() -> dict[str, list[int]]:
    """The stamps of the files that read facts: those read by a different release of grpo-run are not used."""
    here = Path(__file__).parent
    names = (
        "field.py",
        "package_facts.py",
        "read.py",
        "read_package.py",
        "package_source.py",
    )
    return _stamps(here / name for name in names)


def _stamps(files: Iterable[Path]) -> dict[str, list[int]]:
    stamps = {}
    for file in files:
        status = file.stat()
        stamps[str(file)] = [status.st_mtime_ns, status.st_size]
    return stamps
