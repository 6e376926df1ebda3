"""The nearest known word to one that is not known."""

from collections.abc import Iterable


def nearest_words(word: str, known: Iterable[str], *, cutoff: float) -> list[str]:
    """The one nearest word as a list, or none below the cutoff (0 to 1, as difflib counts likeness).

    difflib is imported here: only a recipe with a mistake pays for it.
    """
    from difflib import get_close_matches

    return get_close_matches(word, list(known), n=1, cutoff=cutoff)
