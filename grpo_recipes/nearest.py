"""The nearest known word to one that is not known."""

from collections.abc import Iterable


def nearest_words(word: str, known: Iterable[str], *, cutoff: float) -> list[str]:
    """The one nearest word as a list, or none below the cutoff (0 to 1, as difflib counts likeness).

    A most is never taken for a least, nor a least for a most: max_tokens is no slip of min_tokens.
    difflib is imported here: only a recipe with a mistake pays for it.
    """
    from difflib import get_close_matches

    return get_close_matches(word, [one for one in known if not _is_opposite(word, one)], n=1, cutoff=cutoff)


def _is_opposite(word: str, other: str) -> bool:
    bounds = [{bound for bound in ("max", "min") if bound in one} for one in (word, other)]
    return bounds[0] | bounds[1] == {"max", "min"} and not bounds[0] & bounds[1]
