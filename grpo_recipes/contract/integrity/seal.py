"""Seals JSON files with the sha256 of their text, which shows damage and edits but not who wrote a file.

The last entry, "seal", has the sha256 of everything before it. Anyone who edits a file can write a new one.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.files.bounded_json import parse_json

_SEAL = ',\n  "seal": '
_END = "\n}\n"


class Damaged(Exception):
    """A text differs from what was written; the message says how."""


def seal_content(purpose: str, content: Mapping[str, Any]) -> str:
    """The text of a file with its seal. purpose: identifies the kind of file, so that a seal fits no other kind."""
    body = json.dumps({name: value for name, value in content.items() if name != "seal"}, indent=2, ensure_ascii=False)
    head = body.removesuffix("\n}")
    return f"{head}{_SEAL}{json.dumps({'sha256': _sha256(purpose, head, None)})}{_END}"


def unseal(purpose: str, text: str) -> dict[str, Any]:
    """The content of a sealed text, if it is unchanged. Raises Damaged."""
    head, separator, tail = text.rpartition(_SEAL)
    if not separator:
        raise Damaged("its seal is missing")
    try:
        content, seal = parse_json(f"{head}\n}}".encode()), parse_json(tail.removesuffix(_END).encode())
    except ValueError as problem:
        raise Damaged(f"it cannot be read ({type(problem).__name__})") from problem
    if not (isinstance(content, dict) and isinstance(seal, dict)):
        raise Damaged("it is not a mapping")
    # An older grpo-run added the id of the writer's key, and a keyed digest that nothing reads.
    is_whole = seal.get("sha256") == _sha256(purpose, head, seal.get("key"))
    if not is_whole or tail != f"{json.dumps(seal)}{_END}":
        raise Damaged("its text does not match its sha256")
    return content


def _sha256(purpose: str, head: str, key: object) -> str:
    return hashlib.sha256(f"{key}\ngrpo-run {purpose}\n{head}".encode(errors="surrogatepass")).hexdigest()
