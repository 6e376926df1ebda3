"""Which fixes are certain: they keep every value that the user wrote, and only say it in the right place or spelling.

Certain are a key that moves to where the format has it, and a value in another notation: the text "16" as the number,
a single name as a list of one. Between sections a key moves for certain only where both are about the training: the
same word means another thing in the section of an evaluation, a reward or an adapter.
Removing, replacing or adding a value is a suggestion, however likely it is.
"""

from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import ABSENT, Patch, Path, value_at
from grpo_recipes.resolve.schema_reasons import plain_number

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
