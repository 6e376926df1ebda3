"""The fixes of a recipe's findings as one new text of its file."""

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_recipes.finding import Finding, Patch, Path
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.yaml.override import OVERRIDE_FILE
from grpo_recipes.yaml.rewrite import NotRewritten, rewritten

FIXED = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Fixes:
    """text: of the file with every fix in it, the old text without any. fixed, left: the findings, by their place.

    left: those without a fix as data, whose value stands in another place than this file, or whose fix is at odds with
    an earlier one; a later run may find one for these.
    """

    text: str
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]


def fixes(resolution: Resolution, text: str) -> Fixes:
    """The fixes of all errors and warnings of a recipe whose file holds this text."""
    fixed: list[Finding] = []
    left: list[Finding] = []
    for finding in resolution.findings:
        if finding.severity not in FIXED:
            continue
        taken = [patch for each in fixed for patch in _patches(each, resolution.file) or ()]
        own = _patches(finding, resolution.file)
        if own is None or any(_touch(patch.path, other.path) for patch in own for other in taken):
            left.append(finding)
            continue
        try:
            rewritten(text, [*taken, *own], resolution.file)
        except NotRewritten:
            left.append(finding)
        else:
            fixed.append(finding)
    patches = [patch for each in fixed for patch in _patches(each, resolution.file) or ()]
    return Fixes(rewritten(text, patches, resolution.file) if patches else text, tuple(fixed), tuple(left))


def _patches(finding: Finding, file: str) -> Sequence[Patch] | None:
    """The patches of this file that mend the finding, None when there are none.

    What another file says is overridden here: its keys by a value, null for one that has to go; its lists not.
    """
    if not finding.patch:
        return None
    place = finding.mark.file if finding.mark is not None else file
    if place == file:
        return finding.patch
    if place == OVERRIDE_FILE or any(isinstance(part, int) for patch in finding.patch for part in patch.path):
        return None
    return [Patch(patch.path, None if patch.remove else patch.value) for patch in finding.patch]


def _touch(one: Path, other: Path) -> bool:
    """Whether two paths are the same or one lies below the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
