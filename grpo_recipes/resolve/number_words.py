"""Numbers as people write them where YAML has only text."""

import re
from collections.abc import Sequence


def as_expected(number: float | None, expected: Sequence[str]) -> int | float | None:
    """The number as what the key takes, None where that loses some of it."""
    if number is None or "a number" in expected:
        return number
    return int(number) if number.is_integer() else None


def written_number(text: str) -> float | None:
    """The number of a text as people write them: 0,7 and 5% and 10k; None for one that may mean two."""
    found = re.fullmatch(r"(\d+)(?:[.](\d+)|,(\d{1,2}|\d{4,}))? ?([%kK]?)", text.strip())
    if found is None or not (found[3] or found[4]):
        return None
    number = float(f"{found[1]}.{found[2] or found[3] or 0}")
    return round(number / 100, 12) if found[4] == "%" else number * 1000 if found[4] else number


def share_of(value: object) -> float | None:
    """The share that a number of percent is, None for one near 1, which is more likely a slip."""
    return round(value / 100, 12) if isinstance(value, int | float) and 2 <= value <= 100 else None


def plain_number(text: str, *, whole: bool) -> int | float | None:
    """The number of a text in Python's notation, thousands parted by commas in whole ones; None when it is none."""
    try:
        return int(text.replace(",", "")) if whole else float(text)
    except ValueError:
        return None
