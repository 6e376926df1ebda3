"""Applies the fixes of a recipe's findings to its text, without losing anything unasked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from grpo_recipes.contract.findings.finding import ABSENT, Finding, Patch, Path, path_text, value_at
from grpo_recipes.resolve.fixes.certain import is_certain
from grpo_recipes.resolve.fixes.entries import NotRewritten
from grpo_recipes.resolve.fixes.rewrite import apply_patches
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.resolve.unknown_keys.other_names import names_it_too
from grpo_recipes.resolve.unknown_keys.suggestions import OWNED_KEY, REMOVED_KEY, UNKNOWN_KEY
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import OVERRIDE_FILE

FIXED = ("error", "warning")
MOST_PASSES = 5
# Their fix renames a key to the format's name, where both names are known to mean the same.
KNOWN_NAMES = (REMOVED_KEY, OWNED_KEY)
OF_KEYS = (UNKNOWN_KEY, *KNOWN_NAMES)

Again = Callable[[str], Resolution]
"""Resolves the recipe with a different text."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """The result of fixing a recipe. text: the file with all fixes, unchanged without any. after: its resolution.

    fixed, suggested, left: the findings. suggested: with a fix that replaces, removes or adds a value, which was not
    requested and can be applied. left: without a patch, with one for a different file or in conflict with an earlier
    one, or whose fix would make the recipe worse.
    """

    text: str
    after: Resolution
    fixed: tuple[Finding, ...]
    suggested: tuple[Finding, ...]
    left: tuple[Finding, ...]


def fixes(resolution: Resolution, text: str, again: Again, *, asked: Callable[[Finding], bool]) -> Fixes:
    """The certain fixes of a recipe whose file holds this text, and the requested ones.

    Each is tried; a fix that leaves more errors than before, or its own finding, is skipped. Mistakes that a fix
    uncovers, such as another program's key in a section that was moved, are fixed too. Suggestions are tried, too, so
    that none is announced without success.
    """
    made = _all_passes(resolution, text, again, asked)
    if not made.suggested:
        return made
    tried = _all_passes(made.after, made.text, again, lambda finding: True)
    impossible = tuple(finding for finding in made.suggested if finding not in tried.fixed)
    suggested = tuple(finding for finding in made.suggested if finding not in impossible)
    return replace(made, suggested=suggested, left=(*impossible, *made.left))


def _all_passes(resolution: Resolution, text: str, again: Again, asked: Callable[[Finding], bool]) -> Fixes:
    made = _one_pass(resolution, text, again, asked, [])
    is_over = not made.fixed
    for _ in range(MOST_PASSES):
        if is_over:
            break
        earlier = [patch.path for finding in made.fixed for patch in finding.patch if not patch.remove]
        more = _one_pass(made.after, made.text, again, asked, earlier)
        is_over = not more.fixed
        made = Fixes(more.text, more.after, (*made.fixed, *more.fixed), more.suggested, more.left)
    return made


def _one_pass(
    resolution: Resolution, text: str, again: Again, asked: Callable[[Finding], bool], earlier: Sequence[Path]
) -> Fixes:
    """The fixes of the current findings, errors first: a warning that goes with an error needs no separate fix.

    earlier: what previous passes wrote. Only a certain fix may change it, otherwise one fix would undo another.
    """
    fixed: list[Finding] = []
    suggested: list[Finding] = []
    left: list[Finding] = []
    taken: list[Sequence[Patch]] = []
    written_twice = _find_conflicts(resolution)
    now, after = text, resolution
    own_values = values_of(text, resolution)
    for finding in sorted(resolution.findings, key=lambda finding: finding.severity != "error"):
        if finding.severity not in FIXED or (fixed and not _count(finding, after)):
            continue
        own = patches_here(finding, resolution)
        if (
            own is None
            or _lands_on_another(own, own_values)
            or any(_touch(patch.path, other.path) for patch in own for other in chain(*taken))
        ):
            left.append(finding)
            continue
        is_certain_here = is_safe(finding, resolution, own_values) and not _places(own) & written_twice
        if not (is_certain_here or asked(finding)):
            suggested.append(finding)
        elif not is_certain_here and any(patch.path == path[: len(patch.path)] for patch in own for path in earlier):
            left.append(finding)
        else:
            tried = _try_patches(text, [*taken, own], resolution, again)
            if tried is None or not _is_better(after, tried[1], finding) or _is_worse_there(own, finding, tried[1]):
                left.append(finding)
                continue
            taken.append(own)
            now, after = tried
            fixed.append(finding)
    return Fixes(now, after, tuple(fixed), tuple(suggested), tuple(left))


def is_safe(finding: Finding, resolution: Resolution, own: Mapping[str, object]) -> bool:
    """Whether a finding's fix is certain; never for a recipe that could not be read completely. own: of its file."""
    if resolution.context is None:
        return False
    is_known_name = finding.rule in KNOWN_NAMES or names_it_too(finding.patch)
    is_own = finding.mark is None or finding.mark.file == resolution.file
    return is_certain(finding.patch, own if is_own else resolution.context.source.values, is_known_name=is_known_name)


def _find_conflicts(resolution: Resolution) -> set[Path]:
    """The paths that more than one finding would write, where the user's intention is unknown."""
    counted = Counter(path for finding in resolution.findings for path in _places(finding.patch))
    return {path for path, count in counted.items() if count > 1}


def _places(patches: Iterable[Patch]) -> set[Path]:
    return {patch.path for patch in patches if not patch.remove}


def _lands_on_another(patches: Sequence[Patch], values: Mapping[str, object]) -> bool:
    """Whether a key would move to where this file has a different value; a parent's value would be overridden."""
    return any(patch.remove for patch in patches) and any(
        value_at(values, path, ABSENT) is not ABSENT for path in _places(patches)
    )


def values_of(text: str, resolution: Resolution) -> Mapping[str, object]:
    """The values in the recipe's own file, without its parents."""
    document = load_text(text, resolution.file)[0]
    return document.values if document is not None else {}


def patches_here(finding: Finding, resolution: Resolution) -> Sequence[Patch] | None:
    """The patches of the recipe's own file that fix the finding, None if there are none.

    Values from other files are overridden here: keys by a value, null for one to remove; list items are not. A key
    that a parent spells wrong can only be mended there.
    """
    if not finding.patch:
        return None
    file = finding.mark.file if finding.mark is not None else resolution.file
    if file == resolution.file:
        return finding.patch
    if (
        file == OVERRIDE_FILE
        or finding.rule in OF_KEYS
        or any(isinstance(part, int) for patch in finding.patch for part in patch.path)
    ):
        return None
    return [Patch(patch.path, None if patch.remove else patch.value) for patch in finding.patch]


def _try_patches(
    text: str, patches: Sequence[Sequence[Patch]], resolution: Resolution, again: Again
) -> tuple[str, Resolution] | None:
    try:
        new = apply_patches(text, *patches, file=resolution.file)
    except NotRewritten:
        return None
    return new, again(new)


def _is_better(before: Resolution, after: Resolution, finding: Finding) -> bool:
    """Whether a fix removed its finding and added no errors."""
    return _count(finding, after) < _count(finding, before) and _errors(after) <= _errors(before)


def _count(finding: Finding, resolution: Resolution) -> int:
    """The findings of the same rule about the same key."""
    return sum((other.rule, other.key) == (finding.rule, finding.key) for other in resolution.findings)


def _is_worse_there(patches: Sequence[Patch], finding: Finding, after: Resolution) -> bool:
    """Whether the fixed value is itself the next error, so it was not what was meant.

    An unknown key is not an error of its value.
    """
    values = {path_text(patch.path) for patch in patches}
    is_value = not any(patch.remove for patch in patches) and finding.key in values
    return is_value and any(
        other.severity == "error" and other.key == finding.key and other.rule not in OF_KEYS for other in after.findings
    )


def _errors(resolution: Resolution) -> int:
    return sum(finding.severity == "error" for finding in resolution.findings)


def _touch(path: Path, other: Path) -> bool:
    """Whether two paths are equal or one is below the other."""
    shared = min(len(path), len(other))
    return path[:shared] == other[:shared]
