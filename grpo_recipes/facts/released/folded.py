"""Facts of all releases of a package in one file: what holds over several releases is written once.

`"beta": [["0.14.0", "0.18.2", {...}], ["0.19.0", "1.16.0", {...}]]` gives the first and the last release of each span
in the file's own order of releases; a release in no span lacks the field.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from packaging.version import InvalidVersion

from grpo_recipes.facts.released.windows import version_of
from grpo_recipes.facts.source.package_facts import PackageFacts, package_from_json_value, package_to_json_value

Span = list[Any]
"""[first release, last release, value]"""


def fold(values: Sequence[object], releases: Sequence[str]) -> list[Span]:
    """The spans of a value over the releases, in which None stands for its absence."""
    spans: list[Span] = []
    previous: str | None = None
    for release, value in zip(releases, values, strict=True):
        # As text, since 0, 0.0 and False are equal and not the same default.
        text = None if value is None else _text(value)
        if text is not None and text == previous:
            spans[-1][1] = release
        elif text is not None:
            spans.append([release, release, value])
        previous = text
    return spans


def value_at(spans: Sequence[Span], release: str, places: Mapping[str, int]) -> Any:
    """The value at a release, None where it has none; places: release -> its position in the file."""
    place = places[release]
    for first, last, value in spans:
        if places[first] <= place <= places[last]:
            return value
    return None


def nearest_release(releases: Sequence[str], version: str) -> str | None:
    """The release whose facts hold for a version: itself; above the newest one that; else the one below in its minor.

    None for a version with no release at or below it in its minor, and for what is no version.
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


def fold_facts(facts: Sequence[PackageFacts]) -> dict[str, Any]:
    """The facts of several releases of one package, oldest first, as the JSON of its data file."""
    values: list[Any] = [package_to_json_value(one) for one in facts]
    releases = [one.version for one in facts]
    owners = _merged_order([list(value["owners"]) for value in values])
    return {
        "package": facts[0].package,
        "releases": releases,
        "owners": {owner: _fold_owner([value["owners"].get(owner) for value in values], releases) for owner in owners},
    }


def unfold(folded: Mapping[str, Any], release: str) -> PackageFacts:
    """The facts of one of the file's releases. Raises KeyError for another."""
    places = {version: place for place, version in enumerate(folded["releases"])}
    owners = {}
    for owner, one in folded["owners"].items():
        bases = value_at(one["bases"], release, places)
        if bases is not None:
            read = {name: value_at(spans, release, places) for name, spans in one["fields"].items()}
            owners[owner] = {"bases": bases, "fields": {name: field for name, field in read.items() if field}}
    return package_from_json_value({"package": folded["package"], "version": release, "owners": owners})


def folded_text(folded: Mapping[str, Any]) -> str:
    """The text of a data file, one field a line, so that a reviewer sees what a release changed."""
    owners = []
    for owner, one in folded["owners"].items():
        lines = ",\n".join(f"    {_text(name)}: {_text(spans)}" for name, spans in one["fields"].items())
        owners.append(
            f'  {_text(owner)}: {{\n   "bases": {_text(one["bases"])},\n   "fields": {{\n{lines}\n   }}\n  }}'
        )
    body = ",\n".join(owners)
    head = f' "package": {_text(folded["package"])},\n "releases": {_text(folded["releases"])},\n'
    return f'{{\n{head} "owners": {{\n{body}\n }}\n}}\n'


def table_text(table: Mapping[str, Any]) -> str:
    """The text of a table of the form {name: {key: value}}, one key a line."""
    parts = []
    for name, rows in table.items():
        if not isinstance(rows, Mapping):
            parts.append(f" {_text(name)}: {_text(rows)}")
            continue
        lines = ",\n".join(f"  {_text(key)}: {_text(value)}" for key, value in rows.items())
        parts.append(f" {_text(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fold_owner(ones: Sequence[Any], releases: Sequence[str]) -> dict[str, Any]:
    names = _merged_order([list(one["fields"]) for one in ones if one is not None])
    return {
        "bases": fold([None if one is None else one["bases"] for one in ones], releases),
        "fields": {
            name: fold([None if one is None else one["fields"].get(name) for one in ones], releases) for name in names
        },
    }


def _merged_order(orders: Sequence[list[str]]) -> list[str]:
    """All names in an order that agrees with every release; where releases disagree, with the newest."""
    from graphlib import CycleError, TopologicalSorter  # reading needs no graph

    graph: dict[str, set[str]] = {}
    for order in reversed(orders):
        grown = {name: set(before) for name, before in graph.items()}
        for name in order:
            grown.setdefault(name, set())
        for before, name in pairwise(order):
            grown[name].add(before)
        try:
            TopologicalSorter(grown).prepare()
            graph = grown
        except CycleError:
            for name in order:
                graph.setdefault(name, set())
    return list(TopologicalSorter(graph).static_order())
