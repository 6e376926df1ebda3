"""Reads untrusted JSON, with limits on nesting, on the length of numbers and on unpaired surrogates."""

import json
import re
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import LARGEST, read_bytes

DEEPEST = 64
_LONGEST_NUMBER = 100
"""Digits; a float has up to 308 before its point, and no count here has that many."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_HALF_A_LETTER = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(folder: Path, name: str, most: int = LARGEST, deepest: int = DEEPEST) -> object:
    """The value of a JSON file. Raises OSError and ValueError as folder_files and `parse_json` do."""
    return parse_json(read_bytes(folder, name, most), deepest)


def read_mapping(folder: Path, name: str) -> dict[str, Any] | None:
    """The mapping in a JSON file, None if it cannot be read or holds something else."""
    try:
        content = read_json(folder, name)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def parse_json(content: bytes, deepest: int = DEEPEST) -> object:
    """The value of a JSON text.

    Raises ValueError for invalid JSON, for lists and mappings nested deeper than `deepest`, for a number of more than
    100 digits, and for an unpaired surrogate, which could not be written again.
    """
    if content.count(b"[") + content.count(b"{") > deepest and _is_deeper(content, deepest):
        raise ValueError(f"it has lists or mappings more than {deepest} deep, or without an end")
    text = content.decode("utf-8")
    value: object = _DECODER.decode(text)
    if "\\u" in text and _HALF_A_LETTER.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _is_deeper(content: bytes, deepest: int) -> bool:
    """Whether lists and mappings are nested deeper than `deepest`, without recursion: strips innermost brackets
    repeatedly.

    Escaped quotes are removed first; then every second part between quotes is a string.
    """
    unquoted = content.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in content else content
    brackets = b"".join(unquoted.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    for _ in range(deepest):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _whole_number(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
