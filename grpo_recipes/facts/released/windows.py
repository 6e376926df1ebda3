"""Version windows such as ">=4.56.2,<5", without the 10 ms that importing packaging.specifiers costs.

A test compares this with packaging.specifiers over every window and every release of the shipped tables.
"""

import functools
import re
from collections.abc import Callable

from packaging.version import Version

_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|~=|<|>)\s*([^\s*]+?)(\.\*)?\s*")
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    ">=": lambda version, bound: version >= bound,
    "<=": lambda version, bound: version <= bound,
    "==": lambda version, bound: version == bound,
    "!=": lambda version, bound: version != bound,
    "<": lambda version, bound: version < bound and not (_is_early(version, bound) and not bound.is_prerelease),
    ">": lambda version, bound: version > bound and not (version.is_postrelease and version.release == bound.release),
}


@functools.cache
def is_within(version: str, window: str) -> bool:
    """Whether the public part of a version meets every clause; pre-releases count like others.

    Raises ValueError for a version or a window that is none (packaging's InvalidVersion is one).
    """
    public = Version(Version(version).public)
    return all(_meets(public, clause) for clause in window.split(",") if clause.strip())


def _meets(version: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise ValueError(f"{clause} is no clause of a version window")
    operator, bound = match[1], Version(match[2])
    if match[3] is not None:
        return (_starts_with(version, bound.release)) == (operator == "==")
    if operator == "~=":
        return version >= bound and _starts_with(version, bound.release[:-1])
    return _COMPARE[operator](version, bound)


def _starts_with(version: Version, release: tuple[int, ...]) -> bool:
    padded = (*version.release, *(0 for _ in release))
    return padded[: len(release)] == release


def _is_early(version: Version, bound: Version) -> bool:
    """Whether a version is a pre-release of the bound itself, which "<" leaves out."""
    return version.is_prerelease and Version(version.base_version) == Version(bound.base_version)
