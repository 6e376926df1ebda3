"""Numbers as people write them where YAML has only text."""

import math
import re
from collections.abc import Sequence

from grpo_recipes.yaml.scalars import is_underflow

_NUMBER = r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
_THOUSANDS = r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+"
_GROUPS = r"[1-9][0-9]{0,2}(?:([ '\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*|(\.[0-9]{3}){2,})"


def as_expected(number: float | None, expected: Sequence[str]) -> int | float | None:
    """The number as what the key takes, None where that loses some of it."""
    if number is None or isinstance(number, int) or "a number" in expected:
        return number
    return int(number) if number.is_integer() else None


def written_number(text: str) -> float | None:
    """The number of a text as people write them: 0,7 and 5% and 10k; None for one that may mean two."""
    found = re.fullmatch(r"(\d+)(?:[.](\d+)|,(\d{1,2}|\d{4,}|(?<=\b0,)\d+))? ?([%kK]?)", text.strip())
    if found is None or not (found[3] or found[4]):
        return None
    number = float(f"{found[1]}.{found[2] or found[3] or 0}")
    return round(number / 100, 12) if found[4] == "%" else number * 1000 if found[4] else number


def share_of(value: object) -> float | None:
    """The share that a number of percent is, None for one near 1, which is more likely a slip."""
    return round(value / 100, 12) if isinstance(value, int | float) and 2 <= value <= 100 else None


def meant_number(text: str, expected: Sequence[str]) -> int | float | None:
    """The number of a text where it can mean one alone, as what the key takes."""
    number = plain_number(text, whole="a number" not in expected)
    words = grouped_number(text) or written_number(text)
    return number if number is not None else as_expected(words, expected)


def plain_number(text: str, *, whole: bool) -> int | float | None:
    """The number of a text that can mean one number alone; None for any other.

    Thousands parted by commas are read in whole numbers alone: 1,000 is 1 where a comma is the decimal sign.
    """
    text = text.strip()
    if whole and re.fullmatch(_THOUSANDS, text):
        return int(text.replace(",", ""))
    if not re.fullmatch(_NUMBER, text) or (whole and may_be_thousands(text)):
        return None
    number = float(text)
    if math.isinf(number) or (number == 0 and is_underflow(text)):
        return None
    return int(text) if whole and text.lstrip("+-").isdigit() else as_expected(number, () if whole else ("a number",))


def may_be_thousands(text: str) -> bool:
    """Whether a number with a point may be one of thousands: 1.000, as much of Europe writes 1000."""
    return re.fullmatch(r"[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+", text) is not None


def grouped_number(text: str) -> int | None:
    """The whole number of a text in groups of three that no decimal sign parts: 10 000, 10'000, 1.000.000."""
    found = re.fullmatch(_GROUPS, text.strip())
    return int(re.sub(r"[^0-9]", "", text)) if found else None


def meanings(text: str, expected: Sequence[str]) -> str:
    """Why no whole number is known for 8,0 or 1.000: a decimal sign, or a slip or thousands; "" for any other text.

    1,5 is no whole number either way.
    """
    found = re.fullmatch(r"([0-9]+)([.,])([0-9]+)", text.strip())
    if found is None or "a whole number" not in expected or "a number" in expected or re.fullmatch(_THOUSANDS, text):
        return ""
    if found[3].strip("0") if found[2] == "," else not may_be_thousands(text):
        return ""
    return (f"{int(found[1])} or " if not found[3].strip("0") else "") + str(int(found[1] + found[3]))
