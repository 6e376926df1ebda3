"""Finds releases that mend a stack: after a change, no declared window is violated, and nothing is known to fail."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from grpo_recipes.facts.broken_pairs import BrokenPair, broken_pairs
from grpo_recipes.facts.released.requirements import Conflict, find_conflicts, nearest_first, requirements
from grpo_recipes.facts.released.shipped import newest_release
from grpo_recipes.stack.stack import Stack

WITH_VLLM = (("GRPOConfig.use_vllm", "==", True),)


def _failing_pairs(stack: Stack) -> Iterator[BrokenPair]:
    """The packages of the stack that are known to fail together for every recipe that uses them."""
    pairs = (pair for pair in broken_pairs() if not pair.when or ("vllm" in pair.packages and pair.when == WITH_VLLM))
    return (pair for pair in pairs if pair.holds(stack))


def changed_stack(stack: Stack, way: Mapping[str, str]) -> Stack:
    """The stack with other releases of some packages."""
    return stack._replace(packages={**stack.packages, **way})


def goes_together(stack: Stack) -> bool:
    """Whether the stack violates no declared window and is not known to fail."""
    return _is_accepted(stack, with_extras=True)


def release_alone(stack: Stack, package: str) -> str | None:
    """The nearest release of a package that resolves all conflicts of the stack, None without one."""
    for version in nearest_first(package, stack.version(package)):
        if goes_together(changed_stack(stack, {package: version})):
            return version
    return None


def mending_ways(stack: Stack, pair: BrokenPair) -> Sequence[Mapping[str, str]]:
    """Returns those of a pair's ways after which pip refuses nothing, and nothing fails.

    For a pair that fails for every recipe, extras count too, as in a new environment. Without such a way, the shortest
    with more releases; of equally long ones, that with the newest TRL.
    """
    mends = [way for way in pair.works if _is_accepted(changed_stack(stack, way), with_extras=not pair.when)]
    if mends:
        return mends
    longer = []
    for way in ({"trl": newest_release("trl") or ""}, *pair.works):
        changed = changed_stack(stack, way)
        failing = [name for other in _failing_pairs(changed) for name in other.packages if changed.version(name)]
        more = releases_together(changed, dict.fromkeys([*failing, *conflicting_packages(find_conflicts(changed))]))
        new = {name: release for name, release in {**way, **more}.items() if release != stack.version(name)}
        longer += [new] if more and not pair.holds(changed_stack(stack, new)) else []
    return sorted(longer, key=len)[:1] or pair.works


def _is_accepted(stack: Stack, *, with_extras: bool) -> bool:
    conflicts = [each for each in find_conflicts(stack) if with_extras or each.requirement.extra is None]
    return not conflicts and not any(_failing_pairs(stack))


def releases_together(stack: Stack, packages: Iterable[str]) -> Mapping[str, str]:
    """The fewest releases to install together that leave no conflict: a package, and what its release requires.

    Of equally many, those of the nearest release. Empty without any.
    """
    ways = [
        (len(changes), distance, changes)
        for package in packages
        for distance, version in enumerate(nearest_first(package, stack.version(package)))
        if (changes := _with_requirements(stack, package, version))
    ]
    return min(ways, key=lambda way: way[:2], default=(0, 0, {}))[2]


def _with_requirements(stack: Stack, package: str, version: str) -> dict[str, str]:
    """A release with the nearest releases that it requires of other packages; empty if conflicts remain."""
    changes = {package: version}
    for requirement in requirements(package, version) or ():
        other = stack.version(requirement.name)
        if requirement.extra is None and other is not None and not requirement.accepts(other):
            nearest = nearest_first(requirement.name, other)
            changes |= {requirement.name: next((release for release in nearest if requirement.accepts(release)), other)}
    return changes if goes_together(changed_stack(stack, changes)) else {}


def conflicting_packages(conflicts: Iterable[Conflict]) -> list[str]:
    """The packages that are part of a conflict, without repetition."""
    return list(dict.fromkeys(name for conflict in conflicts for name in (conflict.requirement.name, conflict.package)))
