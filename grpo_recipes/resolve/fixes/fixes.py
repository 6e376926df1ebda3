"""Applies the fixes of a recipe's findings to its text, without losing anything unasked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from grpo_recipes.contract.findings.finding import ABSENT, Finding, Patch, Path, path_text, value_at
from grpo_recipes.resolve.fixes.entries import NotRewritten
from grpo_recipes.resolve.fixes.rewrite import apply_patches
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.resolve.unknown_keys.other_names import names_it_too
from grpo_recipes.resolve.unknown_keys.suggestions import OWNED_KEY, REMOVED_KEY, UNKNOWN_KEY
from grpo_recipes.resolve.written_numbers import plain_number
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


# Decides which fixes are certain: they keep every value that the user wrote, and only change its place or spelling.
#
# Certain are a key that moves to its place in the format, and a value in a different notation: the text "16" as a
# number, a single name as a list of one. Between sections a key only moves if both are about the training: the same
# word means something else in the section of an evaluation, a reward or an adapter.
# Removing, replacing or adding a value is a suggestion, however likely it is.

_WORDS = {True: ("true", "yes", "on", "y"), False: ("false", "no", "off", "n"), None: ("null", "none", "~")}
_SHORTEST_WITH_A_SLIP = 6
_OF_TRAINING = ("generation", "grpo", "logging", "training", "trl")


def is_certain(patches: Sequence[Patch], values: Mapping[str, object], *, is_known_name: bool) -> bool:
    """Whether patches lose, replace and invent none of a recipe's values.

    is_known_name: the key was recognized by its other name, and not by similarity.
    """
    removed = {patch.path: value_at(values, patch.path, ABSENT) for patch in patches if patch.remove}
    if not patches or any(value is ABSENT for value in removed.values()):
        return False
    for patch in patches:
        if patch.remove:
            continue
        before = value_at(values, patch.path, ABSENT)
        if before is not ABSENT:
            if not is_same_value(before, patch.value):
                return False
            continue
        source = next((path for path, value in removed.items() if _is_moved(value, patch.value)), None)
        if source is None or not (is_known_name or is_same_name(source[-1], patch.path[-1])):
            return False
        is_far = source[:-1] != patch.path[:-1]
        if is_far and not (_is_of_training(source) and (is_known_name or _is_of_training(patch.path))):
            return False
        del removed[source]
    return not removed


def _is_of_training(path: Path) -> bool:
    return len(path) == 1 or path[0] in _OF_TRAINING


def is_same_name(name: object, other: object) -> bool:
    """Whether two keys are the same word: the same letters, or a long word with one typo that is not in a digit."""
    a, b = _letters(name), _letters(other)
    is_long = min(len(a), len(b)) >= _SHORTEST_WITH_A_SLIP
    return a == b or (is_long and _digits(a) == _digits(b) and _has_one_slip(a, b))


def is_same_value(before: object, after: object) -> bool:
    """Whether one value is the other in a different notation."""
    if type(before) is type(after) and before == after:
        return False  # the reader refused its notation, so its meaning is unknown
    if isinstance(after, bool) or after is None:
        return isinstance(before, str) and before.lower() in _WORDS[after]
    if isinstance(after, list):
        return len(after) == 1 and (after[0] == before or is_same_value(before, after[0]))
    if isinstance(after, dict):
        return isinstance(before, str) and list(after.values()) == [before]
    if isinstance(after, int | float):
        return _number(before, whole=isinstance(after, int)) == after
    return isinstance(after, str) and _is_respelled(before, after)


def _is_moved(value: object, there: object) -> bool:
    return there in (value, [value])


def _is_respelled(before: object, after: str) -> bool:
    """Whether a value was only respelled; not a number that becomes text: 12.10 was written, and only 12.1 is known."""
    return isinstance(before, str) and _letters(before) == _letters(after)


def _letters(word: object) -> str:
    return str(word).lower().replace("-", "").replace("_", "").replace(" ", "")


def _digits(word: str) -> str:
    return "".join(letter for letter in word if letter.isdigit())


def _number(value: object, *, whole: bool) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return plain_number(value, whole=whole) if isinstance(value, str) else value


def _has_one_slip(a: str, b: str) -> bool:
    """Whether two words differ by one extra, missing or wrong letter, or by two swapped ones."""
    start = next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest_a, rest_b = a[start:], b[start:]
    swapped = rest_a[1::-1] + rest_a[2:] if len(rest_a) > 1 else None
    return rest_a[1:] in (rest_b, rest_b[1:]) or rest_a == rest_b[1:] or swapped == rest_b
