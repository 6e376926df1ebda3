"""What is to be said about the stack itself: releases that the facts do not know, combinations that cannot work."""

from collections.abc import Collection

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.broken_pairs import BrokenPair, broken_pairs
from grpo_recipes.facts.facts import Facts, ReleaseStatus
from grpo_recipes.facts.released.releases import newest_release, releases_date
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.resolve.stack_conflicts import conflict_findings
from grpo_recipes.stack.stack import Stack

NO_FACTS = "STK011"
BROKEN_PAIR = "STK013"
OWNERS = {"trl": "GRPOConfig", "transformers": "BitsAndBytesConfig", "peft": "LoraConfig"}


def stack_findings(stack: Stack, facts: Facts, unused: Collection[str] = ()) -> list[Finding]:
    """A finding for each package that is not known well enough, and for each combination that cannot work.

    unused: packages that the recipe does not use; what they and others declare about each other is not judged.
    """
    never = {package for package in stack.packages if stack.declared and _status(package, stack, facts) == "never"}
    findings = [_never_released(package, str(stack.version(package))) for package in sorted(never)]
    for package, owner in OWNERS.items():
        if not stack.is_known(package):
            findings.append(_unknown(package, stack))
        elif package not in never and stack.version(package) is not None and facts.own_fields(owner) is None:
            findings.append(_no_facts(package, str(stack.version(package))))
    findings += [
        _newer(package, str(stack.version(package)), facts)
        for package in stack.packages
        if stack.declared and _status(package, stack, facts) == "newer"
    ]
    existing = stack._replace(packages={name: None if name in never else v for name, v in stack.packages.items()})
    used = {name: version for name, version in existing.packages.items() if name not in unused}
    findings += conflict_findings(existing._replace(packages=used))
    findings += [_broken(pair, existing) for pair in broken_pairs() if not pair.when and pair.holds(existing)]
    return findings


def _status(package: str, stack: Stack, facts: Facts) -> ReleaseStatus | None:
    """How much is known of a declared version; None without one, and for what is installed here."""
    version = stack.version(package)
    if version is None or facts.origins.get(package) == "installed":
        return None
    return facts.release_status(package, version)


def _unknown(package: str, stack: Stack) -> Finding:
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
        f"{package} {version} is newer than what grpo-run knows",
        because=(f"its facts are of {releases_date()}; the recipe is checked as for {package} {known}",),
        fix=f"install {package} {version} here, where it is read from its source, or renew grpo-recipes",
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


def _broken(pair: BrokenPair, stack: Stack) -> Finding:
    where = " without a GPU" if pair.without_gpus else ""
    return Finding(
        BROKEN_PAIR,
        "error",
        f"{pair.named(stack)}{where}: {pair.happens}",
        because=(pair.because, f"seen with {pair.seen}"),
        fix=pair.fix,
    )
