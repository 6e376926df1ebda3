"""Which versions of a package were ever released, and which fields went with them."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from grpo_recipes.facts.released.shipped import table


class Removed(NamedTuple):
    """A field that went, or is going.

    removed_in: the first release of `package` without it, None while it is only deprecated.
    instead: what to write today, in words; renamed_to: the new name when the value keeps its meaning.
    """

    name: str
    package: str
    removed_in: str | None
    instead: str
    renamed_to: str | None = None
    deprecated_in: str | None = None


def is_released(package: str, version: str) -> bool | None:
    """Whether this version is on the package index, withdrawn ones included; None when it is not known.

    Not known are packages outside the table, versions above its newest, development and otherwise local
    builds without a public release.
    """
    known, wanted = _versions(package), _parsed(version)
    if not known or wanted is None or wanted.is_devrelease:
        return None
    if _public(wanted) in known:
        return True
    return None if is_newer(package, version) else False


def is_newer(package: str, version: str) -> bool:
    """Whether this version is above every one in the table."""
    known, wanted = _versions(package), _parsed(version)
    return bool(known) and wanted is not None and _public(wanted) > max(known)


def releases_date() -> str:
    """The day on which the table of releases was made, as 2026-11-20."""
    return str(table("releases")["date"])


def newest_release(package: str) -> str | None:
    """The newest final release in the table, None for a package that is not in it."""
    known = [version for version in _versions(package) if not version.is_prerelease]
    return str(max(known)) if known else None


def released(package: str) -> list[str]:
    """The final releases in the table, oldest first; [] for a package that is not in it."""
    return [str(version) for version in sorted(_versions(package)) if not version.is_prerelease]


def removal(owner: str, name: str) -> Removed | None:
    """What is known about a field of this class that went or is going, whatever the stack."""
    fields = table("removed").get(owner)
    entry = fields.get(name) if isinstance(fields, Mapping) else None
    return None if entry is None else Removed(name=name, **entry)


@functools.cache
def _versions(package: str) -> frozenset[Version]:
    packages = table("releases")["packages"]
    known = packages.get(package, []) if isinstance(packages, Mapping) else []
    return frozenset(Version(version) for version in known)


def _parsed(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def _public(version: Version) -> Version:
    return Version(version.public)
