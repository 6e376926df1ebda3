"""Reads plain scalars by YAML 1.2's core schema, refusing those that YAML readers disagree on.

Sources: YAML 1.2.2 section 10.3.2, https://yaml.org/type/int.html and float.html for YAML 1.1.
"""

import json
import math
import re
from typing import NamedTuple

from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import visible_text

WORDS = frozenset({"yes", "no", "on", "off", "y", "n"})
"""Plain words, in lower case, that YAML 1.1 reads as booleans and YAML 1.2 as text."""

TEXTS = ("launch", "environment")
"""The map whose numbers and booleans are texts, exactly as written."""

CURLY_QUOTES = frozenset("\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b")
"""The quotes by which word processors and chats replace straight ones."""

_CONSTANTS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_DIGITS = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = r"[-+]?0[0-9]+"
_BASED = r"[-+]?0(?:o_*[0-7][0-7_]*|x_*[0-9a-fA-F][0-9a-fA-F_]*|b_*[01][01_]*)"
_UNDERSCORED = r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
_BASE_SIXTY = r"[-+]?(?:[1-9][0-9_]*(?::[0-5]?[0-9])+|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)"
_INTEGER_DIGITS = 20
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class RefusedScalar(NamedTuple):
    """Why a scalar is refused. written: the replacement as YAML; value: the meaning of the replacement."""

    rule: str
    message: str
    written: str
    value: object


def read_plain(text: str) -> object:
    """The value of an unquoted scalar, or a RefusedScalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text == "None":
        return RefusedScalar(ids.PYTHON_NONE, "None is text in YAML, not the empty value", "null", None)
    return _number(text) if text[0] in _DIGITS else text


def curly_quoted(text: str) -> RefusedScalar | None:
    """The refusal of an unquoted scalar enclosed in curly quotes, which word processors write."""
    inner = text[1:-1]
    if len(text) < 2 or text[-1] not in CURLY_QUOTES or CURLY_QUOTES & set(inner):
        return None
    message = f"{text[0]} and {text[-1]} are not quotes in YAML, but part of the text"
    return RefusedScalar(ids.SYNTAX, message, json.dumps(inner, ensure_ascii=False), inner)


def _number(text: str) -> object:
    if _INTEGER.fullmatch(text):
        value = int(text) if len(text) <= _INTEGER_DIGITS else None
        return _too_large(text) if value is None or not _SMALLEST <= value <= _LARGEST else value
    if re.fullmatch(_LEADING_ZERO, text):
        return _spelling(text, _integer(text, 10))
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number == 0 and is_underflow(text):
            return _too_large(text)._replace(message=f"the number {visible_text(text, 40)} is too small")
        return _too_large(text) if math.isinf(number) else number
    if re.fullmatch(_BASED, text):
        return _spelling(text, _integer(text, 0))
    if "_" in text and re.fullmatch(_UNDERSCORED, text):
        plain = read_plain(text.replace("_", ""))
        return _spelling(text, plain.value if isinstance(plain, RefusedScalar) else plain)
    return _base_sixty(text) if ":" in text and re.fullmatch(_BASE_SIXTY, text) else text


def is_underflow(text: str) -> bool:
    """Whether a text that is read as 0.0 is not zero, but nearer to it than any float."""
    return re.match(r"[-+0.]*[1-9]", text) is not None


def _too_large(text: str) -> RefusedScalar:
    return RefusedScalar(ids.NUMBER_TOO_LARGE, f"the number {visible_text(text, 40)} is too large", f'"{text}"', text)


def _integer(text: str, base: int) -> object:
    """The integer, or the text itself if it does not fit in 64 bits."""
    digits = text.replace("_", "")
    value = int(digits, base) if len(digits) <= 70 else None
    return value if value is not None and _SMALLEST <= value <= _LARGEST else text


def _spelling(text: str, value: object) -> RefusedScalar:
    message = f"the number {visible_text(text, 40)} is not in plain decimal digits"
    written = f'"{text}"' if isinstance(value, str) else repr(value)
    return RefusedScalar(ids.NUMBER_SPELLING, message, written, value)


def _base_sixty(text: str) -> RefusedScalar:
    message = f"{visible_text(text, 40)} is read as a number by some YAML readers and as text by others"
    return RefusedScalar(ids.BASE_SIXTY, message, f'"{text}"', text)
