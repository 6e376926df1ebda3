"""Which packages are installed for this Python, read from their metadata without importing anything."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.version import InvalidVersion, Version

from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, PACKAGES


def normalized(package: str) -> str:
    """The name as package indexes compare it: lower case, one "-" for each run of "-", "_" and "."."""
    return re.sub(r"[-_.]+", "-", package).lower()


def installed_packages(search_path: Iterable[str] | None = None) -> dict[str, str | None]:
    """The version of each of PACKAGES and OPTIONAL_PACKAGES on this search path, None where it is not installed.

    search_path: folders as in sys.path, which is the default; the first folder that has a package wins.
    A folder that an interrupted update left without its METADATA does not count.
    """
    found: dict[str, str | None] = dict.fromkeys((*PACKAGES, *OPTIONAL_PACKAGES))
    for folder in sys.path if search_path is None else search_path:
        here: dict[str, list[str]] = {}
        for name, path in _metadata_folders(folder or "."):
            if name in found and found[name] is None and (version := _version(path)) is not None:
                here.setdefault(name, []).append(version)
        for name, versions in here.items():
            found[name] = max(versions, key=_order)
    return found


def _metadata_folders(folder: str) -> list[tuple[str, Path]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [
        (normalized(name.rpartition(".")[0].partition("-")[0]), Path(folder, name))
        for name in names
        if name.endswith((".dist-info", ".egg-info"))
    ]


def _version(path: Path) -> str | None:
    """The `Version:` of a .dist-info or .egg-info folder, None when it holds no readable metadata."""
    for file in (path / "METADATA", path / "PKG-INFO"):
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if line.startswith("Version:"):
                        return line.removeprefix("Version:").strip()
                    if not line.strip():
                        break
        except OSError:
            continue
    return None


def _order(version: str) -> tuple[bool, Version]:
    try:
        return (True, Version(version))
    except InvalidVersion:
        return (False, Version("0"))
