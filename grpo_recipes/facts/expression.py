"""How a release expresses a value of the format: unchanged, renamed, respelled, by default, or not at all.

`expressed` of a field in the table of classified fields is a list of rows; the first that applies is used. A row
applies to the versions that it names (trl, transformers), or without any to targets that lack the field, and only if
its conditions (`when`) hold. It has one of: only: the values that the release can express, "any" or a list; it does by
default what it has no field for. spelled: pairs of a value and what is passed for it; other values are left to the next
row. named: the key that takes the value instead. divided_by: the field in whose multiples the release counts. shim: of
the worker, which does what the release does not; null needs none. checked_by: the rule that judges.
because: what the release does.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from grpo_recipes.facts.classified import ClassifiedField, classified_fields, holds, matters
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.field import Field

PACKAGES = {"trl": "GRPOConfig", "transformers": "TrainingArguments"}


class Target(NamedTuple):
    """The versions of trl and transformers, and the fields of their GRPOConfig."""

    versions: Mapping[str, str | None]
    fields: Mapping[str, Field]


class Passed(NamedTuple):
    """The value goes to `key`, "GRPOConfig.beta"; because: why it is not passed as written."""

    key: str
    value: object
    because: str = ""


class Unsaid(NamedTuple):
    """Nothing is passed, since the release does this by default."""

    because: str


class NotExpressed(NamedTuple):
    """The release would do something else. values: those that it can express, empty if unknown."""

    because: str
    values: tuple[object, ...] = ()


Expression = Passed | Unsaid | NotExpressed


def expression(field: ClassifiedField, value: object, values: Mapping[str, object], target: Target) -> Expression:
    """How the target expresses the value of a field, given the values of the others (see resolve/inexpressible.py)."""
    present = field.name in target.fields
    for row in _rows(field, values, target, present=present):
        answer = _by_row(row, field.name, value, values, present=present)
        if answer is not None:
            return answer
    if not present:
        return NotExpressed("its GRPOConfig has no such field")
    allowed = target.fields[field.name].allowed
    if allowed is not None and not _is_in(value, allowed) and _is_in(value, _words(field.name)):
        return NotExpressed(f"it accepts {', '.join(map(str, allowed))}", allowed)
    return Passed(f"GRPOConfig.{field.name}", value)


def _rows(
    field: ClassifiedField, values: Mapping[str, object], target: Target, *, present: bool
) -> Iterator[Mapping[str, Any]]:
    """The rows that apply."""
    for row in field.expressed:
        windows = {package: row[package] for package in PACKAGES if package in row}
        within = all(_is_within(target.versions.get(package), window) for package, window in windows.items())
        if (within if windows else not present) and holds(row.get("when", ()), values):
            yield row


def _is_within(version: str | None, window: str) -> bool:
    return version is not None and is_within(version, window)


def _by_row(
    row: Mapping[str, Any], name: str, value: object, values: Mapping[str, object], *, present: bool
) -> Expression | None:
    """The answer of one row for the value, None if it leaves it to the next."""
    because, same = row["because"], Passed(f"GRPOConfig.{name}", value) if present else Unsaid(row["because"])
    if "spelled" in row:
        for written, passed in row["spelled"]:
            if _same(written, value):
                return Passed(f"GRPOConfig.{name}", passed, because) if present else Unsaid(because)
        return None
    if "only" in row:
        return same if row["only"] == "any" or _is_in(value, row["only"]) else NotExpressed(because, tuple(row["only"]))
    if "named" in row:
        return Passed(row["named"], value, because)
    if "divided_by" in row:
        return _divide(name, value, values.get(row["divided_by"]), because)
    if "shim" in row:
        done = value is None or row["shim"] in (values.get("shims") or ())  # type: ignore[operator]
        return Unsaid(because) if done else NotExpressed(because, (None,))
    return Unsaid(because) if value is None else same


def format_value(field: ClassifiedField, passed: object, values: Mapping[str, object], target: Target) -> object:
    """The format's value for what the target is passed, the inverse of its spelling; prefers a word to true."""
    for row in _rows(field, values, target, present=field.name in target.fields):
        pairs = row.get("spelled", ())
        spelled = [written for written, spelling in pairs if _same(spelling, passed)]
        if spelled:
            stands = not _is_in(passed, [written for written, _ in pairs])
            candidates = [passed, *spelled] if stands else spelled
            return next((candidate for candidate in candidates if not isinstance(candidate, bool)), candidates[0])
    return passed


def loading_keyword(name: str, versions: Mapping[str, str | None]) -> str:
    """The keyword of from_pretrained for a key of model_init_kwargs, as these versions call it."""
    for row in table("loading_keywords").get(name, ()):
        if _is_within(versions.get("trl"), row["trl"]):
            return str(row["named"])
    return name


def _divide(name: str, value: object, unit: object, because: str) -> Expression:
    if isinstance(value, int) and isinstance(unit, int) and value % unit == 0:
        return Passed(f"GRPOConfig.{name}", value // unit, because)
    return NotExpressed(because, (unit,))


def _same(value: object, other: object) -> bool:
    """Equality that distinguishes true from 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _is_in(value: object, values: Iterable[object]) -> bool:
    return any(_same(value, member) for member in values)


@cache
def _spans(name: str) -> tuple[str, list[Any]]:
    """The package that declares a field, and its spans of releases: ("trl", [["0.16.0", "1.16.0", {...}]])."""
    for package, owner in PACKAGES.items():
        spans = table(package)["owners"][owner]["fields"].get(name)
        if spans is not None:
            return package, spans
    return "trl", []


def is_of_trl_alone(name: str) -> bool:
    """Whether TRL declares a field, and transformers does in none of its releases."""
    inherited = table("transformers")["owners"][PACKAGES["transformers"]]["fields"]
    return name not in inherited and bool(_spans(name)[1])


def _words(name: str) -> list[object]:
    """Every word that some release accepts for a field."""
    return [word for _, _, field in _spans(name)[1] for word in field.get("allowed", ())]


def releases_that_express(
    field: ClassifiedField, value: object, values: Mapping[str, object], target: Target
) -> tuple[str, list[str]]:
    """The package that decides, trl or transformers, and its releases that can express the value, oldest first.

    The other package keeps its version. A release that a shim corrects for the field can express it; one that lacks a
    field that this one depends on cannot.
    """
    package = _spans(field.name)[0]
    repaired = {**values, "shims": (*(values.get("shims") or ()), *_shims(field))}  # type: ignore[misc]
    meant = {field.name: (field, value), **_dependencies(field, values)}
    other = next(other for other in PACKAGES if other != package)
    other_facts = shipped_facts(other, target.versions.get(other) or "")
    other_fields = {} if other_facts is None else other_facts.owners[PACKAGES[other]].fields
    releases = []
    for release in releases_with_facts(package):
        facts = shipped_facts(package, release)
        fields = {} if facts is None else facts.owners[PACKAGES[package]].fields
        candidate = Target({**target.versions, package: release}, {**other_fields, **fields})
        expressions = (expression(needed, written, repaired, candidate) for needed, written in meant.values())
        if not any(isinstance(expressed, NotExpressed) for expressed in expressions):
            releases.append(release)
    return package, releases


def _shims(field: ClassifiedField) -> list[str]:
    """The shims that correct the field on some release."""
    shims = [str(row["shim"]) for row in field.expressed if "shim" in row]
    conditions = [condition for row in field.expressed for condition in row.get("when", ())]
    return shims + [str(operand) for name, operator, operand in conditions if (name, operator) == ("shims", "contains")]


def _dependencies(field: ClassifiedField, values: Mapping[str, object]) -> dict[str, tuple[ClassifiedField, object]]:
    """The fields that this one depends on, with their values; empty if it has no effect."""
    known = classified_fields()
    names = [name for name, _, _ in field.when if name in known] if matters(field, values) else []
    return {name: (known[name], values[name]) for name in names if name != field.name and name in values}


def spans_of(releases: Iterable[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """The first and last of each run of releases that are consecutive in `known`."""
    places = {release: index for index, release in enumerate(known)}
    wanted = sorted(releases, key=places.__getitem__)
    if not wanted:
        return []
    breaks = [(a, b) for a, b in pairwise(wanted) if places[b] != places[a] + 1]
    firsts, lasts = [wanted[0], *(b for _, b in breaks)], [*(a for a, _ in breaks), wanted[-1]]
    return list(zip(firsts, lasts, strict=True))


def spans_text(releases: Iterable[str], package: str) -> str:
    """Releases as text: "0.14.0-0.15.2, 0.17.0-1.16.0"."""
    spans = spans_of(releases, releases_with_facts(package))
    return ", ".join(first if first == last else f"{first}-{last}" for first, last in spans)
