"""Seals JSON files with the sha256 of their text, which shows damage and edits but not who wrote a file.

The last entry, "seal", has the sha256 of everything before it. Anyone who edits a file can write a new one.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import open_to_read

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


# Binds the sealed files of a run to its folder by an id in integrity.json, which record and manifests repeat.
#
# It is random and independent of the path, so a run folder can be moved or copied as a whole.


INTEGRITY_FILE = "integrity.json"
RUN_ID = "run_id"
_HEAD = re.compile(rb'\{\s*"integrity": \d+,\s*"run_id": "([0-9a-f]{32})"')
_HEAD_BYTES = 128


def run_id(folder: Path) -> str | None:
    """The id of a run folder; None if an older grpo-run wrote it, or integrity.json is lost or unreadable.

    A run writes its record every second, so this reads only the beginning of the file and checks no seal.
    """
    try:
        with open_to_read(folder, INTEGRITY_FILE) as file:
            head = _HEAD.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return None if head is None else head[1].decode()


def with_run_id(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of a run folder with the folder's run id added, if it has one."""
    others, own = {key: value for key, value in content.items() if key != RUN_ID}, run_id(folder)
    return others if own is None else {**others, RUN_ID: own}


def refuse_another_run(folder: Path, content: Mapping[str, Any]) -> None:
    """Raises Damaged if the content of a file belongs to a different run."""
    own = run_id(folder)
    if own is not None and content.get(RUN_ID) != own:
        raise Damaged("it belongs to a different run")
