"""A JSON file that carries the digest of its own text, and who wrote it.

The last entry, "seal", has the sha256 of all that stands before it, the id of the writer's key and a keyed digest. The
first tells damage, also without any key; the other two tell what this user wrote from what somebody else did.
"""

import contextlib
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import open_to_read
from grpo_recipes.contract.integrity.user_key import Key, NoKey, user_key

_SEAL = ',\n  "seal": '
_END = "\n}\n"
YOU, SOMEBODY_ELSE, NOBODY = "you", "somebody else", "nobody"


class Damaged(Exception):
    """A text that is not as it was written; it says in what."""


class Unsealed(Damaged):
    """A text that has no seal at all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sealed file says. signer: "you", "somebody else", or "nobody" where it was written without a key."""

    content: dict[str, Any]
    signer: str


def sealed(purpose: str, content: Mapping[str, Any], key: Key | None = None) -> str:
    """The text of a file with its seal. purpose: what it is; a seal fits no file of another one.

    key: of the writer; None looks for this user's, makes it, and goes on without where there can be none.
    """
    if key is None:
        with contextlib.suppress(NoKey):
            key = user_key(make=True)
    body = json.dumps({name: value for name, value in content.items() if name != "seal"}, indent=2, ensure_ascii=False)
    head = body.removesuffix("\n}")
    return f"{head}{_SEAL}{_seal(purpose, head, None if key is None else key.id, key)}{_END}"


def opened(purpose: str, text: str) -> Opened:
    """What a sealed text says, if it is as it was written. Raises Damaged."""
    head, found, tail = text.rpartition(_SEAL)
    if not found:
        raise Unsealed("its seal is missing")
    try:
        content = parsed(f"{head}\n}}".encode())
        seal = parsed(tail.removesuffix(_END).encode())
        if not isinstance(seal, dict):
            raise ValueError("a seal of another kind")
        key_id, signature = seal["key"], seal["hmac"]
    except (ValueError, KeyError) as problem:
        raise Damaged(f"it cannot be read ({type(problem).__name__})") from problem
    if not isinstance(content, dict):
        raise Damaged("it is no mapping")
    if seal != {"sha256": _sha256(purpose, head, key_id), "key": key_id, "hmac": signature}:
        raise Damaged("its text is not what its sha256 says")
    if key_id is None:
        return Opened(content, NOBODY)
    try:
        key = user_key(make=False)
    except NoKey:
        return Opened(content, SOMEBODY_ELSE)
    if key.id != key_id:
        return Opened(content, SOMEBODY_ELSE)
    if tail != f"{_seal(purpose, head, key_id, key)}{_END}":
        raise Damaged("its signature is not that of your key, which it names")
    return Opened(content, YOU)


def _seal(purpose: str, head: str, key_id: str | None, key: Key | None) -> str:
    signature = None if key is None else hmac.new(key.secret, _said(purpose, head), "sha256").hexdigest()
    return json.dumps({"sha256": _sha256(purpose, head, key_id), "key": key_id, "hmac": signature})


def _sha256(purpose: str, head: str, key_id: object) -> str:
    return hashlib.sha256(f"{key_id}\n".encode(errors="surrogatepass") + _said(purpose, head)).hexdigest()


def _said(purpose: str, head: str) -> bytes:
    return f"grpo-run {purpose}\n{head}".encode(errors="surrogatepass")


# What binds the sealed files of a run to its folder: an id in integrity.json, which record and manifests repeat.
#
# It is drawn when a run folder is written and knows no path, so a folder that is moved or copied whole stays as it was.


INTEGRITY_FILE = "integrity.json"
RUN_ID = "run_id"
_HEAD = re.compile(rb'\{\s*"integrity": \d+,\s*"run_id": "([0-9a-f]{32})"')
_HEAD_BYTES = 128


def run_id(folder: Path) -> str | None:
    """The id of a run folder; None where an older grpo-run wrote it, and where integrity.json is lost or unreadable.

    A run writes its record each second, so the head is read, as it is written, and no seal is opened.
    """
    try:
        with open_to_read(folder, INTEGRITY_FILE) as file:
            found = _HEAD.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return None if found is None else found[1].decode()


def with_run_id(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of a run folder, with the id of that; without one where the folder has none."""
    others, own = {key: value for key, value in content.items() if key != RUN_ID}, run_id(folder)
    return others if own is None else {**others, RUN_ID: own}


def refuse_another_run(folder: Path, content: Mapping[str, Any]) -> None:
    """Raises Damaged where a file of a run folder has the content of another run's."""
    own = run_id(folder)
    if own is not None and content.get(RUN_ID) != own:
        raise Damaged("it is that of another run")
