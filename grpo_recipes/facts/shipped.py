"""Facts that grpo-run brings along: for releases that are not installed here."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from grpo_recipes.facts.package_facts import PackageFacts, package_from_json_value

DATA = Path(__file__).with_name("data")


def same_version(one: str, other: str) -> bool:
    """Whether two versions are the same release: "1.16" and "1.16.0" are, "2.13.0" and "2.13.0+cpu" too."""
    try:
        return Version(Version(one).public) == Version(Version(other).public)
    except InvalidVersion:
        return one == other


def shipped_facts(package: str, version: str) -> PackageFacts | None:
    """The shipped facts of this release, None when there are none."""
    for file in shipped_files():
        name, _, release = file.stem.rpartition("-")
        if name == package and same_version(release, version):
            return _load(file)
    return None


def shipped_files() -> list[Path]:
    """The data files of single releases: data/<package>-<version>.json."""
    return sorted(file for file in DATA.glob("*-*.json"))


@functools.cache
def table(name: str) -> Mapping[str, object]:
    """A reviewed table of data/, by its name without ".json"."""
    value = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{name}.json is not an object")
    return value


@functools.cache
def _load(file: Path) -> PackageFacts:
    return package_from_json_value(json.loads(file.read_text(encoding="utf-8")))
