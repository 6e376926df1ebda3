"""JSON that a stranger may have written: no deeper, no longer numbers and no other text than can be worked with."""

import json
import re
from pathlib import Path

from grpo_recipes.folder_files import LARGEST, read_text

DEEPEST = 64
_LONGEST_NUMBER = 100
"""Digits; a float has 308 before its point, and nothing that is counted here has that many."""
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_HALF_A_LETTER = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(folder: Path, name: str, most: int = LARGEST, deepest: int = DEEPEST) -> object:
    """The value of a JSON file. Raises OSError, ValueError; see folder_files and parsed."""
    return parsed(read_text(folder, name, most), deepest)


def parsed(text: str | bytes, deepest: int = DEEPEST) -> object:
    """The value of a JSON text.

    Raises ValueError for what is none, for lists and mappings more than `deepest` deep, for a number of more than 100
    digits, and for half of a letter, which cannot be written again.
    """
    text = text if isinstance(text, str) else text.decode("utf-8")
    if text.count("[") + text.count("{") > deepest and _depth(text) > deepest:
        raise ValueError(f"it has lists or mappings more than {deepest} deep")
    value: object = json.loads(text, parse_int=_whole_number)
    if _HALF_A_LETTER.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _depth(text: str) -> int:
    """How deep lists and mappings go, without going there. Linear in the length of the text."""
    deepest = depth = 0
    for found in _TEXT_OR_BRACKET.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in "]}":
            depth -= 1
    return deepest


def _whole_number(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)
