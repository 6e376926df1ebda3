"""Findings about the stack itself: unknown releases, and combinations that cannot work."""

from collections.abc import Collection, Iterable, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.broken_pairs import ABSENT, BrokenPair, broken_pairs
from grpo_recipes.facts.facts import Facts, ReleaseStatus
from grpo_recipes.facts.mending import (
    changed_stack,
    conflicting_packages,
    goes_together,
    mending_ways,
    release_alone,
    releases_together,
)
from grpo_recipes.facts.released.requirements import Conflict, find_conflicts
from grpo_recipes.facts.released.shipped import newest_release, releases_date, releases_with_facts
from grpo_recipes.facts.released.windows import is_above
from grpo_recipes.rules._shared.machines import command_for
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.tested import read_tested_stack

NO_FACTS = "STK011"
BROKEN_PAIR = "STK013"
UNKNOWN_MEMBER = "STK019"
# Releases of TRL whose trainer was read for contract/seams.py; the tables of releases take longer to read.
READ = ("0.", *(f"1.{minor}." for minor in range(17)))
OWNERS = {"trl": "GRPOConfig", "transformers": "BitsAndBytesConfig", "peft": "LoraConfig"}
# Not part of the tested stack: known up to the newest release in the table.
KNOWN_BY_TABLE = ("vllm", "liger-kernel", "flash-attn")


def stack_findings(
    stack: Stack, facts: Facts, unused: Collection[str] = (), *, compares_members: bool = False
) -> list[Finding]:
    """A finding for each insufficiently known package, and for each combination that cannot work.

    unused: packages that the recipe does not use; their requirements are not checked. compares_members: read the
    installed trainer's source also for a release that is known.
    """
    never = {package for package in stack.packages if stack.declared and _status(package, stack, facts) == "never"}
    findings = [_never_released(package, str(stack.version(package))) for package in sorted(never)]
    for package, owner in OWNERS.items():
        if not stack.is_known(package):
            findings.append(_version_missing(package, stack))
        elif package not in never and stack.version(package) is not None and facts.own_fields(owner) is None:
            findings.append(_no_facts(package, str(stack.version(package))))
    findings += [
        _newer(package, str(stack.version(package)), facts)
        for package in stack.packages
        if stack.declared and _status(package, stack, facts) == "newer"
    ]
    untested = _untested_releases(stack, facts)
    if untested:
        findings.append(_untested(untested, stack, facts))
    existing = stack._replace(packages={name: None if name in never else v for name, v in stack.packages.items()})
    used = {name: version for name, version in existing.packages.items() if name not in unused}
    findings += conflict_findings(existing._replace(packages=used))
    findings += [_pair_finding(pair, existing) for pair in broken_pairs() if not pair.when and pair.holds(existing)]
    trl = None if stack.declared else stack.version("trl")
    if trl is not None and (compares_members or not trl.startswith(READ) or "transformers" in untested):
        findings += _members(trl)
    return findings


def _members(release: str) -> list[Finding]:
    from grpo_recipes.facts.unknown_members import unknown_members  # only for a release that is not known

    differences = unknown_members(release)
    if not differences:
        return []
    return [
        Finding(
            UNKNOWN_MEMBER,
            "error",
            f"grpo-run does not know how trl {release} trains",
            because=tuple(differences),
            fix=f"trl=={newest_release('trl')}, and report these lines to grpo-run",
        )
    ]


def _status(package: str, stack: Stack, facts: Facts) -> ReleaseStatus | None:
    """How much is known about a declared version; None without one, and for installed packages."""
    version = stack.version(package)
    if version is None or facts.origins.get(package) == "installed":
        return None
    return facts.release_status(package, version)


def _version_missing(package: str, stack: Stack) -> Finding:
    return Finding(
        NO_FACTS,
        "not-checked",
        f"not checked against {package}: {stack.origin} does not say its version",
        fix=f"--target {package}==VERSION,...",
    )


def _never_released(package: str, version: str) -> Finding:
    return Finding(
        NO_FACTS,
        "error",
        f"{package} {version} was never released",
        because=(f"the package index had no such version on {releases_date()}",),
        fix=f"{package}=={newest_release(package)}, the newest of that day, or another release that exists",
    )


def _newer(package: str, version: str, facts: Facts) -> Finding:
    read = facts.packages.get(package)
    known = newest_release(package) if read is None else read.version
    return Finding(
        NO_FACTS,
        "warning",
        f"{package} {version} is newer than grpo-run knows",
        because=(f"its facts date from {releases_date()}; the recipe is checked as for {package} {known}",),
        fix=f"install {package} {version} here, where it is read from its source, or upgrade grpo-recipes",
    )


def _untested_releases(stack: Stack, facts: Facts) -> dict[str, str]:
    """The packages that are newer than the tested stack or the table of releases, with the release known instead.

    Without those that `_newer` reports. Equal versions are not parsed, because `validate` compares them each time.
    """
    tested = read_tested_stack().packages
    present = {name: version for name, version in stack.packages.items() if version is not None}
    known = {name: tested[name] for name, version in present.items() if tested.get(name, version) != version}
    known |= {name: newest_release(name) or present[name] for name in KNOWN_BY_TABLE if name in present}
    return {
        package: release
        for package, release in known.items()
        if is_above(present[package], release) and not (stack.declared and _status(package, stack, facts) != "known")
    }


def _untested(known: Mapping[str, str], stack: Stack, facts: Facts) -> Finding:
    """One finding for all releases that are newer than the tested ones.

    Its fix is left out if the tested releases would not go with the rest of the stack.
    """
    names = " and ".join(f"{package} {stack.version(package)}" for package in known)
    are = "is" if len(known) == 1 else "are"
    read = [f"{name} {stack.version(name)}" for name in known if facts.origins.get(name) == "installed"]
    return Finding(
        NO_FACTS,
        "note",
        f"{names} {are} newer than tested; checked as for {' and '.join(known.values())}",
        because=(f"the fields and the trainer's methods were read from the source of {' and '.join(read)}",)
        if read
        else (),
        fix=_install([known], stack) if goes_together(changed_stack(stack, known)) else None,
    )


def _no_facts(package: str, version: str) -> Finding:
    known = releases_with_facts(package)
    return Finding(
        NO_FACTS,
        "error",
        f"nothing is known about {package} {version}",
        because=(f"{len(known)} releases were read, {known[0]} to {known[-1]}",),
        fix=f"{package}=={known[-1]}, or another release between these",
    )


def _pair_finding(pair: BrokenPair, stack: Stack) -> Finding:
    where = " without a GPU" if pair.without_gpus else ""
    ways = mending_ways(stack, pair)
    only_releases = pair.works and not (pair.write or pair.instead or ABSENT in pair.packages.values())
    return Finding(
        BROKEN_PAIR,
        "error",
        f"{pair.text_for(stack)}{where}: {pair.happens}",
        because=(pair.because, f"seen with {pair.seen}"),
        fix=_install(ways, stack) if only_releases else pair.fix(ways),
    )


DECLARED_CONFLICT = "STK012"
TESTED = "a separate environment with grpo-recipes[{}], whose releases were tested together"


def conflict_findings(stack: Stack) -> list[Finding]:
    """A finding for each declared window that the stack violates. Their fixes are compatible."""
    conflicts = find_conflicts(stack)
    alone = {package: release_alone(stack, package) for package in conflicting_packages(conflicts)}
    together = {} if any(alone.values()) else releases_together(stack, list(alone))
    return [_conflict(conflict, alone, together, stack) for conflict in conflicts]


def _conflict(
    conflict: Conflict, alone: Mapping[str, str | None], together: Mapping[str, str], stack: Stack
) -> Finding:
    """An error if pip refuses; a warning for an extra, which pip enforces only if it was requested.

    alone: releases of single packages that leave no conflict in the stack; together: of several, if none does alone.
    """
    requirement = conflict.requirement
    where = f", in its extra {requirement.extra}" if requirement.extra else ""
    own = {package: alone[package] for package in (requirement.name, conflict.package)}
    ways = [{package: version} for package, version in (own if any(own.values()) else alone).items() if version]
    ways += [dict(together)] if together else []
    extras = "train" if stack.version("vllm") is None else "train,vllm"
    return Finding(
        DECLARED_CONFLICT,
        "warning" if requirement.extra else "error",
        f"{conflict.package} {conflict.version} declares {requirement}{where}, the stack has {conflict.found}",
        because=(
            "pip does not check an extra that was not requested, and the libraries are not tested together"
            if requirement.extra
            else "pip refuses to install these two together",
        ),
        fix=_install(ways, stack) or TESTED.format(extras),
    )


def _install(ways: Iterable[Mapping[str, str]], stack: Stack) -> str:
    """Commands to paste, one for each way: "pip install vllm==0.30.0 torch==2.13.0"."""
    return ", or ".join(command_for(stack, [f"{name}=={version}" for name, version in way.items()]) for way in ways)
