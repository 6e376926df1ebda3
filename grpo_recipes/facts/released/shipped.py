"""Facts that grpo-run brings along: for releases that are not installed here."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion

from grpo_recipes.facts.released.folded import nearest_release, unfold
from grpo_recipes.facts.released.windows import version_of
from grpo_recipes.facts.source.package_facts import MODULES, PackageFacts

DATA = Path(__file__).parents[1] / "data"


def same_version(one: str, other: str) -> bool:
    """Whether two versions are the same release: "1.16" and "1.16.0" are, "2.13.0" and "2.13.0+cpu" too."""
    try:
        return one == other or version_of(version_of(one).public) == version_of(version_of(other).public)
    except InvalidVersion:
        return one == other


def shipped_facts(package: str, version: str) -> PackageFacts | None:
    """The shipped facts that hold for a version; their own `version` is the release that was read.

    That is the release itself, the newest for a version above it, or the nearest below in the same minor; None
    when there is none of these.
    """
    release = nearest_release(releases_with_facts(package), version)
    return None if release is None else _unfolded(package, release)


def facts_of_release(package: str, version: str) -> PackageFacts | None:
    """The shipped facts of exactly this release, None when it was not read."""
    facts = shipped_facts(package, version)
    return facts if facts is not None and same_version(facts.version, version) else None


def releases_with_facts(package: str) -> tuple[str, ...]:
    """The releases of a package whose facts are shipped, oldest first; () for a package without facts."""
    return tuple(table(package)["releases"]) if package in MODULES else ()


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """A table of data/, by its name without ".json"."""
    value = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{name}.json is not an object")
    return value


@functools.cache
def _unfolded(package: str, release: str) -> PackageFacts:
    return unfold(table(package), release)
