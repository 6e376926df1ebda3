"""Writes the facts of all releases of a package into one file; facts/released/folded.py reads it."""

import json
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from grpo_recipes.facts.released.folded import Span
from grpo_recipes.facts.source.package_facts import PackageFacts, package_to_json_value


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


def fold_facts(
    facts: Sequence[PackageFacts], known: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, Any]:
    """The facts of several releases of one package, oldest first, as the JSON of its data file.

    known: class -> its fields in the order of the file that is there; new ones come after the ones that precede them.
    """
    values: list[Any] = [package_to_json_value(one) for one in facts]
    releases = [one.version for one in facts]
    owners = _merged_order([list(value["owners"]) for value in values])
    return {
        "package": facts[0].package,
        "releases": releases,
        "owners": {
            owner: _fold_owner([value["owners"].get(owner) for value in values], releases, known.get(owner, ()))
            for owner in owners
        },
    }


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


def _fold_owner(ones: Sequence[Any], releases: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    orders = [list(one["fields"]) for one in ones if one is not None]
    names = _with_new(known, orders) if known else _merged_order(orders)
    return {
        "bases": fold([None if one is None else one["bases"] for one in ones], releases),
        "fields": {
            name: fold([None if one is None else one["fields"].get(name) for one in ones], releases) for name in names
        },
    }


def _with_new(known: Sequence[str], orders: Sequence[list[str]]) -> list[str]:
    names = list(known)
    for order in orders:
        for before, name in pairwise(["", *order]):
            if name not in names:
                names.insert(names.index(before) + 1 if before else 0, name)
    return names


def _merged_order(orders: Sequence[list[str]]) -> list[str]:
    """All names in an order that agrees with every release; where releases disagree, with the newest."""
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
