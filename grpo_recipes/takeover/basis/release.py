"""The release that a configuration was written for: the keys it takes, and its defaults."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.facts.broken_pairs import broken_pairs
from grpo_recipes.facts.classified import ClassifiedField
from grpo_recipes.facts.expression import PACKAGES, NotExpressed, Target, expression, format_value
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.facts.released.requirements import requirements
from grpo_recipes.facts.released.shipped import final_releases, releases_with_facts, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.field import UNKNOWN, Field
from grpo_recipes.rules.worker_was_tested_with_this_transformers import APPLIES_TO as NOT_RUN
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.basis.read import table_of


@dataclass(frozen=True, slots=True)
class Release:
    """A release of TRL with one of transformers. how: how it was determined, in words."""

    trl: str
    transformers: str
    fields: Mapping[str, Field]
    how: str

    @property
    def name(self) -> str:
        """The release for messages."""
        return f"trl {self.trl} and transformers {self.transformers}"

    @property
    def is_declared(self) -> bool:
        """Whether the author named the release, rather than it being inferred from the keys."""
        return self.how.startswith("--written-for")

    @property
    def target(self) -> Target:
        """The target that values are expressed on."""
        return Target({"trl": self.trl, "transformers": self.transformers}, self.fields)

    def is_in(self, windows: Mapping[str, str]) -> bool:
        """Whether the release is within all windows, {"trl": ">=0.26"}."""
        versions = {"trl": self.trl, "transformers": self.transformers}
        return all(is_within(versions[package], window) for package, window in windows.items())


def parse_release(text: str) -> Release:
    """The release of `--written-for`: trl==0.15.2, or trl==0.15.2,transformers==4.49.0. Raises Refusal."""
    stack, findings = parse_target(text)
    trl = stack.version("trl") if stack is not None else None
    if stack is None or trl is None:
        reason = "; ".join(finding.message for finding in findings) or "it does not name trl"
        raise Refusal.of(f"--written-for {text}: {reason}", fix="--written-for trl==0.15.2")
    transformers = stack.version("transformers")
    how = (
        "--written-for" if transformers else "--written-for, with the oldest transformers that trl and grpo-run support"
    )
    return _release(trl, transformers or _companion(trl), how)


def detect_release(names: Iterable[str]) -> Release:
    """The newest release that takes all these keys, or the newest of all if none does."""
    asked = frozenset(names)
    trl = _newest_with("trl", asked)
    transformers = _newest_with("transformers", asked, trl)
    newest = releases_with_facts("trl")[-1], _newest_with("transformers", frozenset(), trl)
    how = "the newest" if (trl, transformers) == newest else "the newest that takes all its keys"
    return _release(trl, transformers, f"{how}; --written-for chooses a different one")


def release_of(trl: str, like: Release) -> Release | None:
    """A different release of TRL with the same transformers, None if its fields are unknown."""
    fields = facts_for(Stack(None, {"trl": trl, "transformers": like.transformers}, None, None, True, "")).fields(
        "GRPOConfig"
    )
    return None if fields is None else Release(trl, like.transformers, fields, "")


def _release(trl: str, transformers: str, how: str) -> Release:
    facts = facts_for(Stack(None, {"trl": trl, "transformers": transformers}, None, None, True, how))
    fields = facts.fields("GRPOConfig")
    if fields is None or facts.origins.get("trl") == "near":
        known = ", ".join(releases_with_facts("trl"))
        wrong = "was never released" if trl not in final_releases("trl") else "has no known defaults"
        raise Refusal.of(
            f"--written-for: trl {trl} with transformers {transformers} {wrong}", because=f"known are {known}"
        )
    return Release(trl, transformers, fields, how)


def _companion(trl: str) -> str:
    """The default transformers for a release of TRL, out of those that grpo-run supports."""
    known = releases_with_facts("transformers")
    if trl == releases_with_facts("trl")[-1]:
        return known[-1]
    return next((release for release in known if _go_together(trl, release)), known[-1])


def _go_together(trl: str, transformers: str) -> bool:
    """Whether pip accepts both, they can be imported, and grpo-run supports them."""
    stack = Stack(None, {"trl": trl, "transformers": transformers}, None, None, True, "")
    declared = [row for row in requirements("trl", trl) or () if row.name == "transformers" and row.extra is None]
    is_broken = any(pair.holds(stack) for pair in broken_pairs() if not pair.when)
    was_run = not is_within(transformers, NOT_RUN["transformers"])
    return was_run and not is_broken and all(window.accepts(transformers) for window in declared)


def _newest_with(package: str, names: frozenset[str], trl: str | None = None) -> str:
    """The newest release of a package that takes the names. trl: the release it must work with."""
    releases = releases_with_facts(package)
    if trl is not None:
        releases = tuple(release for release in releases if _go_together(trl, release)) or releases
    asked = names & _ever(package)
    if package == "trl":
        asked -= _ever("transformers")  # a release that does not declare a field of its base still has it
    rows = table_of("releases")["last_releases"].get(
        package, {}
    )  # of keys that are not GRPOConfig fields: "<0.27" for torch_dtype
    last = [str(rows[name]) for name in names & set(rows)]
    takes = (release for release in reversed(releases) if asked <= _names(package, release))
    return next((release for release in takes if all(is_within(release, window) for window in last)), releases[-1])


@functools.cache
def _ever(package: str) -> frozenset[str]:
    return frozenset(table(package)["owners"][PACKAGES[package]]["fields"])


@functools.cache
def _names(package: str, version: str) -> frozenset[str]:
    facts = facts_for(Stack(None, {package: version}, None, None, True, ""))
    return frozenset(facts.own_fields(PACKAGES[package]) or ())


def default_of(field: ClassifiedField, release: Release, values: Mapping[str, object]) -> object:
    """The release's default for a missing key, in the format's terms; UNKNOWN if it is computed.

    values: the configuration's and the format's, by field name.
    """
    there = release.fields.get(field.name)
    if there is None:
        written = expression(field, values.get(field.name), values, release.target)
        return written.values[0] if isinstance(written, NotExpressed) and written.values else values.get(field.name)
    default: object = there.default
    for row in table_of("releases")["computed_defaults"].get(field.name, ()):
        if release.is_in(row["in"]) and (default is UNKNOWN or default == row["where"]):
            return (not values.get(row["not"])) if "not" in row else row["value"]
    return in_format_words(field, default, release, values)


def in_format_words(field: ClassifiedField, value: object, release: Release, values: Mapping[str, object]) -> object:
    """The format's value for a value of a TRL release."""
    for known, written in table_of("releases")["same_values"].get(field.name, ()):
        if known == value and type(known) is type(value):
            return written
    return format_value(field, value, values, release.target)


def is_same(value: object, other: object) -> bool:
    """Whether two values are equal, and both or neither are bool."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
