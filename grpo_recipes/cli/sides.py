"""The two sides of a comparison: recipes, plans and runs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.cli.resolving import resolved
from grpo_recipes.cli.stack_option import chosen_stack
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.errors import Refusal
from grpo_recipes.report.measured import Measured, measured
from grpo_recipes.resolve.resolve import plan_of


@dataclass(frozen=True, slots=True)
class Side:
    """One side. plan: None for a refused recipe, whose findings say why. measured: only for a run folder.

    changed: files of a run folder that changed since grpo-run wrote them, each with the reason.
    """

    name: str
    file: str
    plan: Plan | None
    findings: tuple[Finding, ...] = ()
    measured: Measured | None = None
    changed: tuple[str, ...] = ()


def sides_of(
    places: Sequence[str], targets: Sequence[str], overrides: Sequence[str], accepted: Sequence[str]
) -> tuple[Side, Side]:
    """Both sides; for one recipe with one target the first side is this machine.

    targets, overrides, accepted: for recipes only.
    Raises Refusal for sides that cannot be compared.
    """
    pairs = _pairs(places, targets)
    written = [is_written(place) for place, _ in pairs]
    if all(written) and (targets or overrides or accepted):
        raise Refusal.of("--target, --set and --accept need a recipe; plans are compared unchanged")
    sides = [
        _written(place) if is_plan else _planned(place, target, overrides, accepted)
        for (place, target), is_plan in zip(pairs, written, strict=True)
    ]
    return sides[0], sides[1]


def is_written(place: str) -> bool:
    """Whether a path is a run folder or a plan, not a recipe."""
    return os.path.isdir(place) or place.endswith(".json")


def _pairs(places: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str | None]]:
    if len(places) == 2 and len(targets) <= 1:
        target = targets[0] if targets else None
        return [(place, target) for place in places]
    if len(places) == 1 and len(targets) in (1, 2) and not is_written(places[0]):
        return [(places[0], targets[0] if len(targets) == 2 else None), (places[0], targets[-1])]
    raise Refusal.of(
        "diff takes two recipes, plans or run folders, with --target at most once,"
        " or one recipe with --target once or twice"
    )


def _planned(recipe: str, target: str | None, overrides: Sequence[str], accepted: Sequence[str]) -> Side:
    resolution = resolved(recipe, chosen_stack(target), overrides, strict=False, accepted=accepted)
    plan = None if resolution.refused else plan_of(resolution)
    return Side(f"{recipe} on {target or 'this machine'}", recipe, plan, resolution.findings)


def _written(place: str) -> Side:
    from grpo_recipes.contract.integrity.used_run import changed_files  # recipes do not need it
    from grpo_recipes.lock.read_lock import read_lock

    lock = read_lock(place)
    ran = lock.record if os.path.isdir(place) else None
    changed = tuple(map(str, changed_files(Path(lock.folder)))) if lock.is_run_folder else ()
    return Side(place, lock.path, lock.plan, measured=None if ran is None else measured(ran), changed=changed)
