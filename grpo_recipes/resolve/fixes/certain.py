"""Decides which fixes are certain: they keep every value that the user wrote, and only change its place or spelling.

Certain are a key that moves to its place in the format, and a value in a different notation: the text "16" as a
number, a single name as a list of one. Between sections a key only moves if both are about the training: the same
word means something else in the section of an evaluation, a reward or an adapter.
Removing, replacing or adding a value is a suggestion, however likely it is.
"""

from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import ABSENT, Patch, Path, value_at
from grpo_recipes.resolve.written_numbers import plain_number

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
