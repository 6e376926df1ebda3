"""Determines which releases of TRL can express a recipe, and what prevents the others."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.broken_pairs import BrokenPair, broken_pairs
from grpo_recipes.facts.expression import spans_text
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.facts.released.requirements import check_requirements, find_conflicts, requirements
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.facts.released.windows import is_answered_alike
from grpo_recipes.facts.source.package_facts import PackageFacts
from grpo_recipes.resolve.resolve import resolve_source
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """The refused recipe key, "" for the stack itself, and the rule's id."""

    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class Refusing:
    """Consecutive releases that refuse the recipe for the same reasons, as text: "0.16.0-0.16.1"."""

    releases: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Expressible:
    """The releases of TRL that can express a recipe. releases: the spans that can express it, "0.14.0-0.15.2,
    0.17.0-1.16.0", "" for none; refusing: the others.
    """

    releases: str
    refusing: tuple[Refusing, ...]


def expressible(source: Source, stack: Stack) -> Expressible:
    """Resolves a recipe for every release of TRL whose facts are known.

    Each is combined with the stack's transformers, else with the nearest release that works with it; packages of the
    stack that conflict with the two count as unknown. An error of all releases is not about the release.
    """
    errors: dict[str, list[Reason]] = {}
    looked_at: list[tuple[Stack, PackageFacts]] = []
    for release in releases_with_facts("trl"):
        whole = with_trl(stack, release)
        facts = facts_for(whole).packages["trl"]
        alike = next((old for old, known in looked_at if known.owners == facts.owners and _is_alike(old, whole)), None)
        if alike is None:
            looked_at.append((whole, facts))
        errors[release] = _errors(source, whole) if alike is None else errors[str(alike.version("trl"))]
    everywhere = set.intersection(*(set(error) for error in errors.values()))
    reasons = {release: tuple(reason for reason in own if reason not in everywhere) for release, own in errors.items()}
    return Expressible(
        spans_text([release for release, own in reasons.items() if not own], "trl"),
        tuple(
            Refusing(spans_text(list(releases), "trl"), shared)
            for shared, releases in groupby(reasons, key=lambda release: reasons[release])
            if shared
        ),
    )


def _errors(source: Source, stack: Stack) -> list[Reason]:
    findings: list[Finding] = list(resolve_source(source, stack).findings)
    return sorted({Reason(finding.key, finding.rule) for finding in findings if finding.severity == "error"})


def _is_alike(stack: Stack, other: Stack) -> bool:
    """Whether a recipe resolved for one stack has the same errors on the other, whose TRL accepts the same.

    The result depends on TRL's facts, on which of its requirements are met, and on the windows that contain its
    version.
    """
    trl, other_trl = str(stack.version("trl")), str(other.version("trl"))
    return (
        {**stack.packages, "trl": other_trl} == other.packages
        and check_requirements("trl", stack) == check_requirements("trl", other)
        and is_answered_alike(trl, other_trl)
    )


def with_trl(stack: Stack, trl: str) -> Stack:
    """The stack with a different TRL, and with packages that work with it."""
    own = stack.version("transformers")
    windows = [need for need in requirements("trl", trl) or () if need.name == "transformers" and not need.extra]
    nearest = _nearest_first("transformers", own)
    pairs = (_pair(stack, trl, version) for version in nearest if all(window.accepts(version) for window in windows))
    working = (pair for pair in pairs if not any(broken.holds(pair) for broken in _pairs_of_two()))
    pair = next((pair for pair in working if not _conflicting(pair)), _pair(stack, trl, own))
    both: dict[str, str | None] = {**stack.packages, **pair.packages}
    whole = pair._replace(packages=both)
    strange = {name for name in _conflicting(whole) if name not in pair.packages}
    return pair._replace(packages={name: version for name, version in both.items() if name not in strange})


def _pair(stack: Stack, trl: str, transformers: str | None) -> Stack:
    """The stack reduced to trl and transformers, as a declared one, since installed packages say nothing about it."""
    packages: Mapping[str, str | None] = {"trl": trl} | ({"transformers": transformers} if transformers else {})
    return stack._replace(packages=packages, declared=True)


def _conflicting(stack: Stack) -> set[str]:
    """The packages that conflict with others of the stack, or with a known defect of all recipes."""
    names: set[str] = set()
    for conflict in find_conflicts(stack):
        names |= {conflict.package, conflict.requirement.name}
    for pair in broken_pairs():
        if not pair.when and pair.holds(stack):
            names |= set(pair.packages)
    return names - {"python"}


@functools.cache
def _pairs_of_two() -> tuple[BrokenPair, ...]:
    """The known defects of all recipes that depend only on TRL and transformers."""
    return tuple(pair for pair in broken_pairs() if not pair.when and pair.packages.keys() <= {"trl", "transformers"})


@functools.cache
def _nearest_first(package: str, version: str | None) -> tuple[str, ...]:
    """The releases by distance from the version, the newer one last among equals; newest first without a version."""
    releases = releases_with_facts(package)
    if version not in releases:
        return releases[::-1]
    position = releases.index(version)
    return tuple(sorted(releases, key=lambda release: (abs(releases.index(release) - position), release)))
