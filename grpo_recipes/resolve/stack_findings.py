"""What is to be said about the stack itself: releases that the facts do not know."""

from grpo_recipes.facts.facts import Facts
from grpo_recipes.finding import Finding
from grpo_recipes.stack.stack import Stack

NO_FACTS = "STK011"
OWNERS = {"trl": "GRPOConfig", "transformers": "BitsAndBytesConfig", "peft": "LoraConfig"}


def stack_findings(stack: Stack, facts: Facts) -> list[Finding]:
    """A finding for each package whose version is not known well enough to check against."""
    findings = []
    for package, owner in OWNERS.items():
        version = stack.version(package)
        if version is None:
            if not stack.is_absent(package):
                findings.append(_unknown(package, stack))
        elif facts.fields(owner) is None:
            findings.append(_no_facts(package, version, facts))
    return findings


def _unknown(package: str, stack: Stack) -> Finding:
    return Finding(
        NO_FACTS,
        "not-checked",
        f"not checked against {package}: {stack.origin} does not say its version",
        fix=f"--target {package}==VERSION,...",
    )


def _no_facts(package: str, version: str, facts: Facts) -> Finding:
    status = facts.release_status(package, version)
    never = status == "never"
    return Finding(
        NO_FACTS,
        "error",
        f"{package} {version} was never released" if never else f"nothing is known about {package} {version}",
        because=()
        if never
        else (f"it is {'newer than' if status == 'newer' else 'not among'} the releases that were read",),
        fix="name a release that exists" if never else "use the release that grpo-recipes was tested with",
    )
