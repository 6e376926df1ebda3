"""Reads numbers as people write them, which YAML reads as text."""

import math
import re
from collections.abc import Sequence

from grpo_recipes.yaml.scalars import is_underflow

_NUMBER = r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
_THOUSANDS = r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+"
_GROUPS = r"[1-9][0-9]{0,2}(?:([ '\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*|(\.[0-9]{3}){2,})"


def as_expected(number: float | None, expected: Sequence[str]) -> int | float | None:
    """The number in the key's type, None if that would lose precision."""
    if number is None or isinstance(number, int) or "a number" in expected:
        return number
    return int(number) if number.is_integer() else None


def number_with_unit(text: str) -> float | None:
    """The number in a text such as 0,7 or 5% or 10k; None if it is ambiguous."""
    text, decimals = with_plain_minus(text), r"(?:[.](\d+)|,(\d{1,2}|\d{4,}|(?<=\b0,)\d+))?"
    match = re.fullmatch(rf"(-?\d+){decimals}(?:([eE][-+]?\d+)| ?([%kK]))?", text)
    if match is None or not (match[3] or match[5]):
        return None
    number = float(f"{match[1]}.{match[2] or match[3] or 0}{match[4] or ''}")
    return round(number / 100, 12) if match[5] == "%" else number * 1000 if match[5] else number


def share_of(value: object) -> float | None:
    """The share that a percentage means, None for a number near 1, which is more likely a typo."""
    return round(value / 100, 12) if isinstance(value, int | float) and 2 <= value <= 100 else None


def number_of_text(text: str, expected: Sequence[str]) -> int | float | None:
    """The number of an unambiguous text, in the key's type."""
    number = plain_number(text, whole="a number" not in expected)
    words = number_in_groups(text) or number_with_unit(text) or calculate(text)
    return number if number is not None else as_expected(words, expected)


def plain_number(text: str, *, whole: bool) -> int | float | None:
    """The number of an unambiguous text; None for any other.

    Commas as thousands separators are only accepted in whole numbers: 1,000 is 1 with a decimal comma.
    """
    text = with_plain_minus(text)
    if whole and re.fullmatch(_THOUSANDS, text):
        return int(text.replace(",", ""))
    if not re.fullmatch(_NUMBER, text) or (whole and may_be_thousands(text)):
        return None
    number = float(text)
    if math.isinf(number) or (number == 0 and is_underflow(text)):
        return None
    return int(text) if whole and text.lstrip("+-").isdigit() else as_expected(number, () if whole else ("a number",))


def with_plain_minus(text: str) -> str:
    """The text with the minus signs and dashes of word processors as plain ones."""
    return re.sub("[\u2010-\u2015\u2212\ufe63\uff0d]", "-", text.strip())


def calculate(text: str) -> float | None:
    """The result of a product, a quotient or a power such as 4 * 1024, None for any other text."""
    parts = re.split(r"\s*(\*\*|[*\u00d7^/])\s*", text.strip())
    numbers = [plain_number(part, whole=False) for part in parts[::2]]
    if len(parts) < 3 or None in numbers or (len(parts) > 3 and set(parts[1::2]) & {"**", "^"}):
        return None
    result, *rest = [float(number) for number in numbers if number is not None]
    try:
        for sign, number in zip(parts[1::2], rest, strict=True):
            result = result / number if sign == "/" else result * number if sign in "*\u00d7" else result**number
        return float(f"{result:.12g}") if math.isfinite(result) else None
    except (ArithmeticError, TypeError, ValueError):
        return None


def may_be_thousands(text: str) -> bool:
    """Whether a decimal number may have a thousands separator: 1.000, which much of Europe writes for 1000."""
    return re.fullmatch(r"[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+", text) is not None


def number_in_groups(text: str) -> int | None:
    """The whole number in a text grouped by threes without ambiguity: 10 000, 10'000, 1.000.000."""
    match = re.fullmatch(_GROUPS, text.strip())
    return int(re.sub(r"[^0-9]", "", text)) if match else None


def meanings(text: str, expected: Sequence[str]) -> str:
    """Why 8,0 or 1.000 is ambiguous: a decimal separator, a typo or thousands; "" for any other text.

    1,5 is not a whole number either way.
    """
    match = re.fullmatch(r"([0-9]+)([.,])([0-9]+)", text.strip())
    if match is None or "a whole number" not in expected or "a number" in expected or re.fullmatch(_THOUSANDS, text):
        return ""
    if match[3].strip("0") if match[2] == "," else not may_be_thousands(text):
        return ""
    return (f"{int(match[1])} or " if not match[3].strip("0") else "") + str(int(match[1] + match[3]))
