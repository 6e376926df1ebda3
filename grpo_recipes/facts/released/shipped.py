"""The shipped facts, for releases that are not installed."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from grpo_recipes.facts.released.folded import nearest_release, unfold
from grpo_recipes.facts.released.windows import version_of
from grpo_recipes.facts.source.package_facts import MODULES, PackageFacts

DATA = Path(__file__).parents[1] / "data"


def same_version(version: str, other: str) -> bool:
    """Whether two versions are the same release: "1.16" and "1.16.0" are, also "2.13.0" and "2.13.0+cpu"."""
    try:
        return version == other or version_of(version_of(version).public) == version_of(version_of(other).public)
    except InvalidVersion:
        return version == other


def shipped_facts(package: str, version: str) -> PackageFacts | None:
    """The shipped facts for a version; their own `version` is the release that was read.

    Uses that release, the newest for a version above it, or the nearest below in the same minor; None if there is none
    of these.
    """
    release = nearest_release(releases_with_facts(package), version)
    return None if release is None else _read_facts(package, release)


def facts_of_release(package: str, version: str) -> PackageFacts | None:
    """The shipped facts of exactly this release, None if it was not read."""
    facts = shipped_facts(package, version)
    return facts if facts is not None and same_version(facts.version, version) else None


def releases_with_facts(package: str) -> tuple[str, ...]:
    """The releases of a package whose facts are shipped, oldest first; () for a package without facts."""
    return tuple(table(package)["releases"]) if package in MODULES else ()


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """A table of data/, by name without ".json"."""
    value = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{name}.json is not an object")
    return value


@functools.cache
def _read_facts(package: str, release: str) -> PackageFacts:
    return unfold(table(package), release)


class Removed(NamedTuple):
    """A field that was removed or deprecated.

    removed_in: the first release of `package` without it, None while it is only deprecated.
    instead: the replacement, in words; renamed_to: the new name if the value keeps its meaning.
    """

    name: str
    package: str
    removed_in: str | None
    instead: str
    renamed_to: str | None = None
    deprecated_in: str | None = None


def is_released(package: str, version: str) -> bool | None:
    """Whether this version is on the package index, withdrawn ones included; None if unknown.

    Unknown are packages outside the table, versions above its newest, and development or local builds without a public
    release.
    """
    known, wanted = _versions(package), _parse(version)
    if not known or wanted is None or wanted.is_devrelease:
        return None
    if _public(wanted) in known:
        return True
    return None if is_newer(package, version) else False


def is_newer(package: str, version: str) -> bool:
    """Whether this version is above all versions in the table."""
    known, wanted = _versions(package), _parse(version)
    return bool(known) and wanted is not None and _public(wanted) > max(known)


def releases_date() -> str:
    """The day on which the table of releases was made, as 2026-11-20."""
    return str(table("releases")["date"])


@functools.cache
def newest_release(package: str) -> str | None:
    """The newest final release in the table, None for an unknown package."""
    known = [version for version in _versions(package) if not version.is_prerelease]
    return str(max(known)) if known else None


def final_releases(package: str) -> list[str]:
    """The final releases in the table, oldest first; [] for an unknown package."""
    return [str(version) for version in sorted(_versions(package)) if not version.is_prerelease]


def removal(owner: str, name: str) -> Removed | None:
    """The removal or deprecation of a field of this class, or of GRPOConfig's base, on any stack."""
    owners = (owner, "TrainingArguments") if owner == "GRPOConfig" else (owner,)
    entry = next((row for class_name in owners if (row := table("removed").get(class_name, {}).get(name))), None)
    return None if entry is None else Removed(name=name, **entry)


@functools.cache
def _versions(package: str) -> frozenset[Version]:
    packages = table("releases")["packages"]
    known = packages.get(package, []) if isinstance(packages, Mapping) else []
    return frozenset(Version(version) for version in known)


def _parse(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def _public(version: Version) -> Version:
    return Version(version.public)
