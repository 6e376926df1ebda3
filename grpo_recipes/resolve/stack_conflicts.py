"""Where packages of a stack declare that they do not go with others of it, and the releases that do (STK012)."""

from collections.abc import Iterable, Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.broken_pairs import broken_pairs, either
from grpo_recipes.facts.released.requirements import Conflict, declared_conflicts, nearest_first
from grpo_recipes.stack.stack import Stack

DECLARED_CONFLICT = "STK012"
WITH_VLLM = (("GRPOConfig.use_vllm", "==", True),)
TESTED = "an environment of its own with grpo-recipes[train], whose releases were tested together"


def conflict_findings(stack: Stack) -> list[Finding]:
    """A finding for each declared window that the stack is outside of. What they say to install goes together."""
    conflicts = declared_conflicts(stack)
    alone = {package: _alone(stack, package) for package in _packages(conflicts)}
    together = {} if any(alone.values()) or not conflicts else _together(stack)
    return [_conflict(conflict, alone, together) for conflict in conflicts]


def _conflict(conflict: Conflict, alone: Mapping[str, str | None], together: Mapping[str, str]) -> Finding:
    """An error where pip refuses; a warning for an extra, which pip enforces only where it was asked for.

    alone: the releases of one package that leave no conflict in the stack; together: those of several.
    """
    requirement = conflict.requirement
    where = f", in its extra {requirement.extra}" if requirement.extra else ""
    own = {package: alone[package] for package in (requirement.name, conflict.package)}
    ways = [{package: version} for package, version in (own if any(own.values()) else alone).items() if version]
    return Finding(
        DECLARED_CONFLICT,
        "warning" if requirement.extra else "error",
        f"{conflict.package} {conflict.version} declares {requirement}{where}, the stack has {conflict.found}",
        because=(
            "pip does not check an extra that was not asked for, and the libraries are not tested together"
            if requirement.extra
            else "pip refuses to install these two together",
        ),
        fix=either([], ways or ([together] if together else [])) or TESTED,
    )


def _is_whole(stack: Stack) -> bool:
    """Whether nothing of the stack is known not to go together."""
    return not declared_conflicts(stack) and not _fails(stack)


def _fails(stack: Stack) -> bool:
    """Whether packages of the stack are known to fail together for every recipe that uses them."""
    pairs = (pair for pair in broken_pairs() if not pair.when or ("vllm" in pair.packages and pair.when == WITH_VLLM))
    return any(pair.holds(stack) for pair in pairs)


def _alone(stack: Stack, package: str) -> str | None:
    """The nearest release of a package with which the whole stack goes together, None without one."""
    return next((version for version, other in _nearest_first(stack, package) if _is_whole(other)), None)


def _together(stack: Stack) -> Mapping[str, str]:
    """Releases of several packages with which the stack goes together, {} where none were found.

    Of all releases that one package can change to, first the nearest that leaves the fewest conflicts, and so on.
    """
    changes: dict[str, str] = {}
    while conflicts := declared_conflicts(stack):
        others = [
            (len(declared_conflicts(other)), place, package, version, other)
            for package in _packages(conflicts)
            if package not in changes
            for place, (version, other) in enumerate(_nearest_first(stack, package))
            if not _fails(other)
        ]
        least = min(others, key=lambda one: one[:2], default=None)
        if least is None or least[0] >= len(conflicts):
            return {}
        *_, package, version, other = least
        changes[package], stack = version, other
    return changes if _is_whole(stack) else {}


def _packages(conflicts: Iterable[Conflict]) -> list[str]:
    """Each package that is part of a conflict, once."""
    return list(dict.fromkeys(name for one in conflicts for name in (one.requirement.name, one.package)))


def _nearest_first(stack: Stack, package: str) -> Iterator[tuple[str, Stack]]:
    """Other releases of a package by their distance from the stack's, each with its stack."""
    for version in nearest_first(package, stack.version(package)):
        yield version, stack._replace(packages={**stack.packages, package: version})
