"""Formats parts of messages: nearest known names, values as a user writes them, tables."""

import re
from collections.abc import Container, Iterable, Sequence

from grpo_recipes.contract.findings.finding import Path


def nearest_words(word: str, known: Iterable[str], *, cutoff: float) -> list[str]:
    """The nearest known name as a list of one, empty if none reaches the cutoff (difflib's ratio, 0 to 1).

    Never suggests an opposite: max_tokens is not a typo of min_tokens, and disable_thinking not of enable_thinking.
    difflib is imported here, so only a recipe with a mistake pays for it.
    """
    from difflib import get_close_matches

    return get_close_matches(word, [name for name in known if not _is_opposite(word, name)], n=1, cutoff=cutoff)


_OPPOSITES = (("max", "min"), ("enable", "disable"), ("low", "high"), ("include", "exclude"))


def _is_opposite(word: str, other: str) -> bool:
    pairs = ((a in word, b in word, a in other, b in other) for a, b in _OPPOSITES)
    return any(has in ((True, False, False, True), (False, True, True, False)) for has in pairs)


def value_text(value: object, limit: int = 60) -> str:
    """A value for a message: YAML-like, short, without control characters."""
    text = (
        "null"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, str)
        else str(value)
    )
    return shorten(text, limit)


def one_line(text: str) -> str:
    """A text without line breaks and terminal escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, most: int) -> str:
    """A text on one line of at most `most` characters."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."


def join_items(items: Sequence[object], most: int = 3, between: str = ", ") -> str:
    """ "1, 2, 3 and 4 more"."""
    shown = between.join(map(str, items[:most]))
    return shown + (f" and {len(items) - most:,} more" if len(items) > most else "")


def cells(text: str) -> int:
    """The width of a text in terminal cells."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def align_rows(rows: Iterable[Sequence[str]], right: Container[int] = (), most: int = 1000) -> list[str]:
    """Rows of texts as aligned lines; columns that are empty in every row are dropped.

    right: indexes of right-aligned columns. most: the width up to which a longer text widens its column.
    """
    columns = []
    for index, texts in enumerate(zip(*rows, strict=True)):
        width = min(most, max(map(cells, texts)))
        spaces = [" " * (width - cells(text)) for text in texts]
        if width:
            pairs = zip(spaces, texts, strict=True) if index in right else zip(texts, spaces, strict=True)
            columns.append(["".join(pair) for pair in pairs])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def entry(path: Path, text: str) -> str:
    """The YAML entry for a path: "key: text", or "- text" in a list."""
    return f"- {text}" if isinstance(path[-1], int) else f"{path[-1]}: {text}"


def flow(value: object) -> str:
    """A value in YAML's flow style, as fixes show it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*(:\w+)?", value)
    return str(value) if plain else value_text(value)


OF_THE_TRAINER = {
    **dict.fromkeys(("model", "policy", "ref_model", "trainer"), "a reward loads the model that it needs itself"),
    **dict.fromkeys(("tokenizer", "processing_class"), "completion_ids has the tokens of each completion"),
    **dict.fromkeys(("step", "global_step", "state"), "trainer_state.global_step is the number of the step"),
}
"""What a reward can use instead of an object of the trainer, by the parameter's name."""


def without_parameters(missing: Sequence[str]) -> str | None:
    """The fix for a reward that asks for objects of the trainer, None if all that it misses may be columns."""
    of_trainer = [name for name in missing if name in OF_THE_TRAINER]
    hints = dict.fromkeys(OF_THE_TRAINER[name] for name in of_trainer)
    return f"remove the parameter {join_items(of_trainer)}: {'; '.join(hints)}" if of_trainer else None
