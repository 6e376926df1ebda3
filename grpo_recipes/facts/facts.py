"""Facts: what this stack accepts, combined from its packages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grpo_recipes.facts.released.folded import value_at
from grpo_recipes.facts.released.shipped import (
    Removed,
    facts_of_release,
    is_newer,
    is_released,
    releases_with_facts,
    removal,
    same_version,
    shipped_facts,
    table,
)
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.cache import Read, installed_facts
from grpo_recipes.facts.source.field import Field
from grpo_recipes.facts.source.package_facts import MODULES, OwnerFacts, PackageFacts
from grpo_recipes.stack.stack import Stack, installed_packages

if TYPE_CHECKING:
    from grpo_recipes.facts.source.package_facts import LogitsKeyword

ReleaseStatus = Literal["known", "released", "newer", "never", "unknown"]
Origin = Literal["installed", "released", "near"]
DIGESTS = "digests"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the classes of a stack accept.

    packages: those whose facts are known. origins: where each was read; "near" is a different release than the stack's:
    the one below it in its minor, or the newest for a version above all. versions: of the stack, as far as known.
    """

    packages: Mapping[str, PackageFacts]
    origins: Mapping[str, Origin]
    versions: Mapping[str, str | None]
    _combined: dict[str, Mapping[str, Field] | None] = field(default_factory=dict, compare=False, repr=False)

    def fields(self, owner: str) -> Mapping[str, Field] | None:
        """The fields of a class and of its bases in other packages; None if any of them is unknown."""
        if owner not in self._combined:
            self._combined[owner] = self._combine(owner)
        return self._combined[owner]

    def _combine(self, owner: str) -> Mapping[str, Field] | None:
        facts = self._owner(owner)
        if facts is None:
            return None
        combined: dict[str, Field] = {}
        for base in facts.bases:
            if _package_of(base) is not None:
                inherited = self.fields(base)
                if inherited is None:
                    return None
                combined |= inherited
        return combined | {name: _overriding(combined.get(name), f) for name, f in facts.fields.items()}

    def own_fields(self, owner: str) -> Mapping[str, Field] | None:
        """The fields that the class's own package declares; known even if those of its base are not."""
        facts = self._owner(owner)
        return None if facts is None else facts.fields

    def parameters(self, owner: str) -> tuple[str, ...] | None:
        """The constructor's parameter names; in their order for a class that is not a dataclass."""
        fields = self.fields(owner)
        return None if fields is None else tuple(fields)

    def source(self, owner: str) -> str | None:
        """The source of a class's facts: "trl 1.16.0 (installed)", or "trl 1.16.1 (as 1.16.0)" when near."""
        package = _package_of(owner)
        if package is None or package not in self.packages:
            return None
        read, origin = self.packages[package].version, self.origins[package]
        return f"{package} {self.versions[package]} (as {read})" if origin == "near" else f"{package} {read} ({origin})"

    def logits_keyword(self, model_class: str) -> "LogitsKeyword | None":
        """The logits keyword of a model class's forward, None for an unknown class or release.

        Uses the shipped table for a known release, and the source of any other installed one.
        """
        from grpo_recipes.facts.released import logits  # only rules that know the model's class need it

        version = self.versions.get("transformers")
        if version is None:
            return None
        if version not in releases_with_facts("transformers") and self.origins.get("transformers") == "installed":
            return logits.logits_keyword_installed(model_class)
        return logits.logits_keyword_of_release(version, model_class)

    def has_model_type(self, model_type: str) -> bool | None:
        """Whether this transformers has a class for a model_type; None for an unknown release.

        Reads the source of an installed package, and the shipped table for any other.
        """
        from grpo_recipes.facts.released import model_types  # only rules that know the model's type need it

        version = self.versions.get("transformers")
        if version is None:
            return None
        if self.origins.get("transformers") == "installed":
            return model_types.installed_has_type(model_type)
        return model_types.release_has_type(version, model_type)

    def release_status(self, package: str, version: str) -> ReleaseStatus:
        """How much is known about a release.

        known: its facts are available, or none are needed; released: it exists, but its facts are not available; newer:
        above the newest in the table (releases.releases_date()); never: below it and not in it;
        unknown: a package outside the table, a development version.
        """
        if package in self.packages and same_version(self.packages[package].version, version):
            return "known"
        released = is_released(package, version)
        if released is None:
            return "newer" if is_newer(package, version) else "unknown"
        if not released:
            return "never"
        return "released" if package in MODULES and facts_of_release(package, version) is None else "known"

    def removal_of(self, owner: str, name: str) -> Removed | None:
        """When a field that this stack lacks was removed, and what replaced it.

        An unknown version is taken as the newest.
        """
        removed = removal(owner, name)
        if removed is None or removed.removed_in is None:
            return None
        mine = self.versions.get(removed.package)
        try:
            return removed if mine is None or is_within(mine, f">={removed.removed_in}") else None
        except ValueError:
            return removed

    def _owner(self, owner: str) -> OwnerFacts | None:
        package = _package_of(owner)
        if package is None or package not in self.packages:
            return None
        return self.packages[package].owners.get(owner)


@cache
def _read_installed() -> Mapping[str, str | None]:
    """The installed packages, cached since one process sees one environment."""
    return installed_packages()


@cache
def _facts_of_installed(package: str, version: str) -> PackageFacts | None:
    return installed_facts(package, version, as_released)


def as_released(package: str, version: str, folder: Path) -> Read | None:
    """The shipped facts of an installed package whose files are those of a release, with those files; else None.

    data/digests.json has, for each release, the files that its facts were read from and one digest of them. A package
    that differs from its release is read from source.
    """
    facts = facts_of_release(package, version)
    known = table(DIGESTS).get(package)
    if facts is None or known is None or facts.version not in known["releases"]:
        return None
    places = {release: index for index, release in enumerate(known["releases"])}
    names = value_at(known["files"], facts.version, places)
    try:
        if source_sha256(folder, names) != value_at(known["sha256"], facts.version, places):
            return None
    except OSError:
        return None
    return Read(facts._replace(version=version), [folder / name for name in names])


def source_sha256(folder: Path, names: Iterable[str]) -> str:
    """One digest of the package files that facts are read from. Raises OSError."""
    from grpo_recipes.contract.files.regular_file import (  # only an empty cache needs it
        file_sha256,
        files_sha256,
    )

    return files_sha256((name, file_sha256(folder / name)) for name in sorted(names))


def facts_for(stack: Stack) -> Facts:
    """The facts of a stack: of the installed packages that have its versions, else from shipped data."""
    installed = _read_installed() if stack.declared else stack.packages
    packages: dict[str, PackageFacts] = {}
    origins: dict[str, Origin] = {}
    for package in MODULES:
        version, here = stack.version(package), installed.get(package)
        if version is None:
            continue
        if here is not None and same_version(here, version):
            facts = _facts_of_installed(package, here)
            if facts is not None:
                packages[package], origins[package] = facts, "installed"
                continue
        facts = shipped_facts(package, version)
        if facts is None:
            continue
        if same_version(facts.version, version):
            packages[package], origins[package] = facts, "released"
        elif is_released(package, version) is not False:
            packages[package], origins[package] = facts, "near"
    return Facts(packages, origins, dict(stack.packages))


def _package_of(owner: str) -> str | None:
    return next((package for package, owners in MODULES.items() if owner in owners), None)


def _overriding(inherited: Field | None, field: Field) -> Field:
    """The derived class's field; a closed set of the base still applies, since its constructor checks it."""
    if inherited is None or field.allowed is not None:
        return field
    return field._replace(allowed=inherited.allowed)
