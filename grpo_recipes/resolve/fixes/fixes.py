"""The fixes of a recipe's findings as one new text of its file, in which nothing is lost unasked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from grpo_recipes.contract.findings.finding import ABSENT, Finding, Patch, Path, dotted, value_at
from grpo_recipes.resolve.fixes.entries import NotRewritten
from grpo_recipes.resolve.fixes.rewrite import rewritten
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.resolve.schema_reasons import plain_number
from grpo_recipes.resolve.unknown_keys.other_names import names_it_too
from grpo_recipes.resolve.unknown_keys.placement import OWNED_KEY, REMOVED_KEY, UNKNOWN_KEY
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import OVERRIDE_FILE

FIXED = ("error", "warning")
MOST_PASSES = 5
# Their fix writes a key as the format has it by now: the two names are known to mean one thing.
KNOWN_NAMES = (REMOVED_KEY, OWNED_KEY)
OF_KEYS = (UNKNOWN_KEY, *KNOWN_NAMES)

Again = Callable[[str], Resolution]
"""The resolution of the recipe with another text in its file."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """text: of the file with every fix in it, the old text without any. after: its resolution.

    fixed, suggested, left: the findings. suggested: what has a fix that may replace, remove or add a value, and was not
    asked for. left: without a fix as data, with one in another place than this file or at odds with an earlier one, or
    whose fix would make the recipe worse.
    """

    text: str
    after: Resolution
    fixed: tuple[Finding, ...]
    suggested: tuple[Finding, ...]
    left: tuple[Finding, ...]


def fixes(resolution: Resolution, text: str, again: Again, *, asked: Callable[[Finding], bool]) -> Fixes:
    """The certain fixes of a recipe whose file holds this text, and those that were asked for.

    Each is tried: one after which there are more errors than before, or its own finding still, is left out. What a fix
    uncovers, as another program's key in a section that was moved, is mended too.
    """
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

    earlier: what passes before this one wrote. Nothing but a certain fix changes it: else one fix would undo another.
    """
    fixed: list[Finding] = []
    suggested: list[Finding] = []
    left: list[Finding] = []
    taken: list[Sequence[Patch]] = []
    written_twice = _written_twice(resolution)
    now, after = text, resolution
    own_values = values_of(text, resolution)
    for finding in sorted(resolution.findings, key=lambda one: one.severity != "error"):
        if finding.severity not in FIXED or (fixed and not _is_known(finding, after)):
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
            tried = _tried(text, [*taken, own], resolution, again)
            if tried is None or not _is_better(after, tried[1], finding) or _is_worse_there(own, finding, tried[1]):
                left.append(finding)
                continue
            taken.append(own)
            now, after = tried
            fixed.append(finding)
    return Fixes(now, after, tuple(fixed), tuple(suggested), tuple(left))


def is_safe(finding: Finding, resolution: Resolution, own: Mapping[str, object]) -> bool:
    """Whether a finding's fix is certain; one whose recipe could not be read to its end is not. own: of its file."""
    if resolution.context is None:
        return False
    is_known_name = finding.rule in KNOWN_NAMES or names_it_too(finding.patch)
    is_own = finding.mark is None or finding.mark.file == resolution.file
    return is_certain(finding.patch, own if is_own else resolution.context.source.values, is_known_name=is_known_name)


def _written_twice(resolution: Resolution) -> set[Path]:
    """The places that more than one finding would write: which of them the user meant is not known."""
    counted = Counter(place for finding in resolution.findings for place in _places(finding.patch))
    return {place for place, count in counted.items() if count > 1}


def _places(patches: Iterable[Patch]) -> set[Path]:
    return {patch.path for patch in patches if not patch.remove}


def _lands_on_another(patches: Sequence[Patch], values: Mapping[str, object]) -> bool:
    """Whether something would be moved to where this file has another value; over a parent's it wins."""
    return any(patch.remove for patch in patches) and any(
        value_at(values, place, ABSENT) is not ABSENT for place in _places(patches)
    )


def values_of(text: str, resolution: Resolution) -> Mapping[str, object]:
    """What the recipe's own file says, without its parents."""
    document = load_text(text, resolution.file)[0]
    return document.values if document is not None else {}


def patches_here(finding: Finding, resolution: Resolution) -> Sequence[Patch] | None:
    """The patches of the recipe's own file that fix the finding, None if there are none.

    What another file says is overridden here: its keys by a value, null for one that has to go; its lists not.
    """
    if not finding.patch:
        return None
    place = finding.mark.file if finding.mark is not None else resolution.file
    if place == resolution.file:
        return finding.patch
    if place == OVERRIDE_FILE or any(isinstance(part, int) for patch in finding.patch for part in patch.path):
        return None
    return [Patch(patch.path, None if patch.remove else patch.value) for patch in finding.patch]


def _tried(
    text: str, patches: Sequence[Sequence[Patch]], resolution: Resolution, again: Again
) -> tuple[str, Resolution] | None:
    try:
        new = rewritten(text, *patches, file=resolution.file)
    except NotRewritten:
        return None
    return new, again(new)


def _is_better(before: Resolution, after: Resolution, finding: Finding) -> bool:
    """Whether a fix mended its finding and no more errors are known than before."""
    return not _is_known(finding, after) and _errors(after) <= _errors(before)


def _is_known(finding: Finding, resolution: Resolution) -> bool:
    return any((one.rule, one.key) == (finding.rule, finding.key) for one in resolution.findings)


def _is_worse_there(patches: Sequence[Patch], finding: Finding, after: Resolution) -> bool:
    """Whether another value in the same place is the next error: then it is not what was meant.

    An unknown key is no error of its value.
    """
    values = {dotted(patch.path) for patch in patches}
    is_value = not any(patch.remove for patch in patches) and finding.key in values
    return is_value and any(
        one.severity == "error" and one.key == finding.key and one.rule not in OF_KEYS for one in after.findings
    )


def _errors(resolution: Resolution) -> int:
    return sum(finding.severity == "error" for finding in resolution.findings)


def _touch(one: Path, other: Path) -> bool:
    """Whether two paths are the same or one lies below the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


# Which fixes are certain: they keep every value that the user wrote, and only say it in the right place or spelling.
#
# Certain are a key that moves to where the format has it, and a value in another notation: the text "16" as the number,
# a single name as a list of one. Between sections a key moves for certain only where both are about the training: the
# same word means another thing in the section of an evaluation, a reward or an adapter.
# Removing, replacing or adding a value is a suggestion, however likely it is.

_WORDS = {True: ("true", "yes", "on", "y"), False: ("false", "no", "off", "n"), None: ("null", "none", "~")}
_SHORTEST_WITH_A_SLIP = 6
_OF_TRAINING = ("generation", "grpo", "logging", "training", "trl")


def is_certain(patches: Sequence[Patch], values: Mapping[str, object], *, is_known_name: bool) -> bool:
    """Whether patches lose, replace and invent nothing of a recipe's values.

    is_known_name: what moves was found under the other name, and not by its likeness.
    """
    removed = {patch.path: value_at(values, patch.path, ABSENT) for patch in patches if patch.remove}
    if not patches or any(value is ABSENT for value in removed.values()):
        return False
    for patch in patches:
        if patch.remove:
            continue
        before = value_at(values, patch.path, ABSENT)
        if before is not ABSENT:
            if not is_same_said_otherwise(before, patch.value):
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


def is_same_name(one: object, other: object) -> bool:
    """Whether two keys are one word: the same letters, or a long word with one slip in it, which is no number."""
    a, b = _letters(one), _letters(other)
    is_long = min(len(a), len(b)) >= _SHORTEST_WITH_A_SLIP
    return a == b or (is_long and _digits(a) == _digits(b) and _has_one_slip(a, b))


def is_same_said_otherwise(before: object, after: object) -> bool:
    """Whether one value is the other in another notation."""
    if type(before) is type(after) and before == after:
        return False  # what the reader refused of its notation is not known here
    if isinstance(after, bool) or after is None:
        return isinstance(before, str) and before.lower() in _WORDS[after]
    if isinstance(after, list):
        return len(after) == 1 and (after[0] == before or is_same_said_otherwise(before, after[0]))
    if isinstance(after, dict):
        return isinstance(before, str) and list(after.values()) == [before]
    if isinstance(after, int | float):
        return _number(before, whole=isinstance(after, int)) == after
    return isinstance(after, str) and _is_respelled(before, after)


def _is_moved(value: object, there: object) -> bool:
    return there in (value, [value])


def _is_respelled(before: object, after: str) -> bool:
    """A number that becomes text is none: 12.10 was written, and 12.1 is known of it."""
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
    """Whether one letter too many, too few, wrong, or two in the wrong order tell two words apart."""
    start = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest_a, rest_b = a[start:], b[start:]
    swapped = rest_a[1::-1] + rest_a[2:] if len(rest_a) > 1 else None
    return rest_a[1:] in (rest_b, rest_b[1:]) or rest_a == rest_b[1:] or swapped == rest_b
