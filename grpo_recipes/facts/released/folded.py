"""Facts of all releases of a package in one file, in which values that span several releases are written once.

`"beta": [["0.14.0", "0.18.2", {...}], ["0.19.0", "1.16.0", {...}]]` gives the first and last release of each span in
the file's own order of releases; a release in no span lacks the field.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion

from grpo_recipes.facts.released.windows import version_of
from grpo_recipes.facts.source.package_facts import PackageFacts, package_from_json_value

Span = list[Any]
"""[first release, last release, value]"""


def value_at(spans: Sequence[Span], release: str, places: Mapping[str, int]) -> Any:
    """The value at a release, None without one; places: release -> its position in the file."""
    position = places[release]
    for first, last, value in spans:
        if places[first] <= position <= places[last]:
            return value
    return None


def nearest_release(releases: Sequence[str], version: str) -> str | None:
    """The release whose facts apply to a version: itself; the newest, if it is above all; else the next lower in its
    minor.

    None if there is none, or the version is invalid.
    """
    if version in releases:
        return version
    try:
        wanted = version_of(version_of(version).public)
    except InvalidVersion:
        return None
    below = [release for release in releases if version_of(release) <= wanted]
    if not below:
        return None
    if len(below) == len(releases) or version_of(below[-1]).release[:2] == wanted.release[:2]:
        return below[-1]
    return None


def unfold(folded: Mapping[str, Any], release: str) -> PackageFacts:
    """The facts of one of the file's releases. Raises KeyError for others."""
    places = {version: index for index, version in enumerate(folded["releases"])}
    owners = {}
    for owner, entry in folded["owners"].items():
        bases = value_at(entry["bases"], release, places)
        if bases is not None:
            read = {name: value_at(spans, release, places) for name, spans in entry["fields"].items()}
            owners[owner] = {"bases": bases, "fields": {name: field for name, field in read.items() if field}}
    return package_from_json_value({"package": folded["package"], "version": release, "owners": owners})
