"""Seals JSON files: adds a digest of their text and a keyed digest that identifies the writer.

The last entry, "seal", has the sha256 of everything before it, the id of the writer's key and a keyed digest. The first
detects damage, even without any key; the other two distinguish what this user wrote from what somebody else wrote.
"""

import contextlib
import hashlib
import hmac
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import open_to_read

# The key that distinguishes this user's files from those of others: a private file, made when needed.


KEY_FILE, ALLOWED_FILE = "key", "allowed.json"
_LARGEST_LIST = 16 << 20
_KEY = re.compile(rb"[0-9a-f]{64}\n")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoKey(Exception):
    """The user has no key that can be trusted; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key that identifies this user's files. secret: stored nowhere else. id: identifies the key without revealing
    any of it.
    """

    secret: bytes
    id: str


def user_folder() -> Path:
    """The folder for this user's files: $XDG_CONFIG_HOME/grpo-run, or ~/.config/grpo-run without that variable.

    Raises NoKey if this user's home is unknown.
    """
    home = os.environ.get("XDG_CONFIG_HOME")
    # The XDG specification says to ignore relative paths.
    if home and os.path.isabs(home):
        return Path(home) / "grpo-run"
    try:
        base = Path.home()
    except RuntimeError:
        raise NoKey("this user has no home folder; set XDG_CONFIG_HOME to a different folder") from None
    if not base.is_absolute():
        raise NoKey("HOME is not an absolute path; set XDG_CONFIG_HOME to a different folder")
    return base / ".config" / "grpo-run"


def user_key(*, make: bool) -> Key:
    """The key of this user. make: create a missing one; if several processes do so at once, one wins.

    Raises NoKey if it is missing, cannot be made, belongs to a different user or is readable by others.
    """
    path = user_folder() / KEY_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        if not make:
            raise NoKey(f"{path} does not exist") from None
    except OSError as problem:
        raise NoKey(f"{path} cannot be read: {problem.strerror or problem}") from problem
    try:
        _make(path)
        return _read(path)
    except OSError as problem:
        raise NoKey(f"{path} cannot be made: {problem.strerror or problem}") from problem


def own_content(path: Path, most: int, others: int = 0o077, around_others: int = 0o002) -> bytes:
    """The beginning of a private file. others, around_others: permissions that nobody else may have on it and on its
    folder.

    Raises OSError, and ValueError if somebody else may have put it there, written it or read it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found, around = os.fstat(descriptor), path.parent.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if not {found.st_uid, around.st_uid} <= {os.geteuid(), 0}:
            raise ValueError(f"{path} or its folder belongs to another user")
        if found.st_mode & others or around.st_mode & around_others:
            raise ValueError(f"{path} or its folder is open to others; chmod go-rwx fixes that")
        return file.read(most)


def listed_digests() -> frozenset[str]:
    """The digests of code that this user has allowed to run. Raises NoKey, OSError, ValueError."""
    try:
        content = parsed(own_content((user_folder() / ALLOWED_FILE).resolve(), _LARGEST_LIST, others=0o022))
    except FileNotFoundError:
        return frozenset()
    listed = content.get("allowed") if isinstance(content, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a list of digests")
    return frozenset(word for word in listed if isinstance(word, str) and _SHA256.fullmatch(word))


def allowed_digests() -> frozenset[str]:
    """The digests of listed_digests; empty if the list cannot be read."""
    try:
        return listed_digests()
    except (NoKey, OSError, ValueError):
        return frozenset()


def _read(path: Path) -> Key:
    """Raises OSError, and NoKey for a file that somebody else may have put there or read."""
    try:
        content = own_content(path, 200)
    except ValueError as problem:
        raise NoKey(str(problem)) from None
    if not _KEY.fullmatch(content):
        raise NoKey(f"{path} is not a key; remove it to make a new one")
    secret = bytes.fromhex(content.decode().strip())
    return Key(secret, hashlib.sha256(b"grpo-run key\n" + secret).hexdigest()[:16])


def _make(path: Path) -> None:
    """Creates a new key, unless one exists by now. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    writing = path.with_name(f".{KEY_FILE}.{os.getpid()}.{os.urandom(4).hex()}.writing")
    descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(f"{os.urandom(32).hex()}\n".encode())
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(writing, path)  # fails if a different process was first, as renaming would not
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(writing, path)
    finally:
        writing.unlink(missing_ok=True)


_SEAL = ',\n  "seal": '
_END = "\n}\n"
YOU, SOMEBODY_ELSE, NOBODY = "you", "somebody else", "nobody"


class Damaged(Exception):
    """A text differs from what was written; the message says how."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of a sealed file. signer: "you", "somebody else", or "nobody" if it was written without a key."""

    content: dict[str, Any]
    signer: str


def sealed(purpose: str, content: Mapping[str, Any], key: Key | None = None) -> str:
    """The text of a file with its seal. purpose: identifies the kind of file, so that a seal fits no other kind.

    key: of the writer; None uses this user's, makes it if necessary, and continues without one if that is impossible.
    """
    if key is None:
        with contextlib.suppress(NoKey):
            key = user_key(make=True)
    body = json.dumps({name: value for name, value in content.items() if name != "seal"}, indent=2, ensure_ascii=False)
    head = body.removesuffix("\n}")
    return f"{head}{_SEAL}{_seal(purpose, head, None if key is None else key.id, key)}{_END}"


def opened(purpose: str, text: str) -> Opened:
    """The content of a sealed text, if it is unchanged. Raises Damaged."""
    head, found, tail = text.rpartition(_SEAL)
    if not found:
        raise Damaged("its seal is missing")
    try:
        content = parsed(f"{head}\n}}".encode())
        seal = parsed(tail.removesuffix(_END).encode())
        if not isinstance(seal, dict):
            raise ValueError("a seal of another kind")
        key_id, signature = seal["key"], seal["hmac"]
    except (ValueError, KeyError) as problem:
        raise Damaged(f"it cannot be read ({type(problem).__name__})") from problem
    if not isinstance(content, dict):
        raise Damaged("it is not a mapping")
    if seal != {"sha256": _sha256(purpose, head, key_id), "key": key_id, "hmac": signature}:
        raise Damaged("its text does not match its sha256")
    if key_id is None:
        return Opened(content, NOBODY)
    try:
        key = user_key(make=False)
    except NoKey:
        return Opened(content, SOMEBODY_ELSE)
    if key.id != key_id:
        return Opened(content, SOMEBODY_ELSE)
    if tail != f"{_seal(purpose, head, key_id, key)}{_END}":
        raise Damaged("its signature does not match your key, which it names")
    return Opened(content, YOU)


def _seal(purpose: str, head: str, key_id: str | None, key: Key | None) -> str:
    signature = None if key is None else hmac.new(key.secret, _said(purpose, head), "sha256").hexdigest()
    return json.dumps({"sha256": _sha256(purpose, head, key_id), "key": key_id, "hmac": signature})


def _sha256(purpose: str, head: str, key_id: object) -> str:
    return hashlib.sha256(f"{key_id}\n".encode(errors="surrogatepass") + _said(purpose, head)).hexdigest()


def _said(purpose: str, head: str) -> bytes:
    return f"grpo-run {purpose}\n{head}".encode(errors="surrogatepass")


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
            found = _HEAD.match(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return None if found is None else found[1].decode()


def with_run_id(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of a run folder with the folder's run id added, if it has one."""
    others, own = {key: value for key, value in content.items() if key != RUN_ID}, run_id(folder)
    return others if own is None else {**others, RUN_ID: own}


def refuse_another_run(folder: Path, content: Mapping[str, Any]) -> None:
    """Raises Damaged if the content of a file belongs to a different run."""
    own = run_id(folder)
    if own is not None and content.get(RUN_ID) != own:
        raise Damaged("it belongs to a different run")
