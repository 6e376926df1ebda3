"""Which releases of TRL can express a recipe, and what stands against it on the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.broken_pairs import broken_pairs
from grpo_recipes.facts.expression import spans_text
from grpo_recipes.facts.released.requirements import declared_conflicts
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.resolve.resolve import resolve_source
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """The recipe key that is refused, "" for the stack itself, and the rule's id."""

    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class Refusing:
    """Releases that follow each other and refuse the recipe for the same reasons, in text: "0.16.0-0.16.1"."""

    releases: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Expressible:
    """releases: the spans that can express it, "0.14.0-0.15.2, 0.17.0-1.16.0", "" for none; refusing: the others."""

    releases: str
    refusing: tuple[Refusing, ...]


def expressible(source: Source, stack: Stack) -> Expressible:
    """What every release of TRL whose facts are known says of a recipe.

    Each is looked at with the stack's transformers, else with the nearest release that works with it; packages of the
    stack that do not go with the two count as unknown. An error that all releases have is not about the release.
    """
    errors = {release: _errors(source, with_trl(stack, release)) for release in releases_with_facts("trl")}
    everywhere = set.intersection(*(set(found) for found in errors.values()))
    reasons = {release: tuple(one for one in found if one not in everywhere) for release, found in errors.items()}
    return Expressible(
        spans_text([release for release, found in reasons.items() if not found], "trl"),
        tuple(
            Refusing(spans_text(list(releases), "trl"), found)
            for found, releases in groupby(reasons, key=lambda release: reasons[release])
            if found
        ),
    )


def _errors(source: Source, stack: Stack) -> list[Reason]:
    findings: list[Finding] = list(resolve_source(source, stack).findings)
    return sorted({Reason(finding.key, finding.rule) for finding in findings if finding.severity == "error"})


def with_trl(stack: Stack, trl: str) -> Stack:
    """The stack with another TRL, and with what goes with it."""
    own = stack.version("transformers")
    pairs = (_pair(stack, trl, version) for version in _nearest_first("transformers", own))
    pair = next((one for one in pairs if not _conflicting(one)), _pair(stack, trl, own))
    both: dict[str, str | None] = {**stack.packages, **pair.packages}
    whole = pair._replace(packages=both)
    strange = {name for name in _conflicting(whole) if name not in pair.packages}
    return pair._replace(packages={name: version for name, version in both.items() if name not in strange})


def _pair(stack: Stack, trl: str, transformers: str | None) -> Stack:
    """The stack reduced to trl and transformers, as a declared one: what is installed says nothing about it."""
    packages: Mapping[str, str | None] = {"trl": trl} | ({"transformers": transformers} if transformers else {})
    return stack._replace(packages=packages, declared=True)


def _conflicting(stack: Stack) -> set[str]:
    """The packages that the stack's other packages, or a known defect of all recipes, do not go with."""
    names: set[str] = set()
    for conflict in declared_conflicts(stack):
        names |= {conflict.package, conflict.requirement.name}
    for pair in broken_pairs():
        if not pair.when and pair.holds(stack):
            names |= set(pair.packages)
    return names - {"python"}


def _nearest_first(package: str, version: str | None) -> list[str]:
    """The releases by their distance from the version, newer ones last among equals; newest first without one."""
    releases = releases_with_facts(package)
    if version not in releases:
        return list(reversed(releases))
    place = releases.index(version)
    return sorted(releases, key=lambda release: (abs(releases.index(release) - place), release))
