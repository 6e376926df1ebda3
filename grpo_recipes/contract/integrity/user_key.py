"""The key that tells what this user wrote from what somebody else did: a file of the user's own, made when needed."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.files.bounded_json import read_json

KEY_FILE = "key"
_KEY = re.compile(rb"[0-9a-f]{64}\n")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoKey(Exception):
    """There is no key of this user that can be trusted; the text says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Key:
    """secret: never written anywhere else. id: tells it from other keys and gives nothing of it away."""

    secret: bytes
    id: str


def user_folder() -> Path:
    """Where what belongs to this user lies: $XDG_CONFIG_HOME/grpo-run, ~/.config/grpo-run without that variable.

    Raises NoKey where nobody knows this user's home.
    """
    home = os.environ.get("XDG_CONFIG_HOME")
    # The XDG specification says that a relative path is to be ignored.
    if home and os.path.isabs(home):
        return Path(home) / "grpo-run"
    try:
        base = Path.home()
    except RuntimeError:
        raise NoKey("this user has no home folder; XDG_CONFIG_HOME names another place") from None
    if not base.is_absolute():
        raise NoKey("HOME is no absolute path; XDG_CONFIG_HOME names another place")
    return base / ".config" / "grpo-run"


def user_key(*, make: bool) -> Key:
    """The key of this user. make: a missing one is made; of several processes that make it at once one wins.

    Raises NoKey for one that is missing, cannot be made, is another user's or can be read by others.
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


def allowed_digests() -> frozenset[str]:
    """The digests of code that this user has allowed to run; none where the list cannot be read."""
    try:
        content = read_json(user_folder(), "allowed.json")
    except (NoKey, OSError, ValueError):
        return frozenset()
    listed = content.get("allowed") if isinstance(content, Mapping) else None
    words = listed if isinstance(listed, list) else []
    return frozenset(word for word in words if isinstance(word, str) and _SHA256.fullmatch(word))


def _read(path: Path) -> Key:
    """Raises OSError, and NoKey for a file that somebody else may have put there or may have read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found, around = os.fstat(descriptor), path.parent.stat()
        if not stat.S_ISREG(found.st_mode):
            raise NoKey(f"{path} is no regular file")
        if found.st_uid != os.geteuid() or around.st_uid != os.geteuid():
            raise NoKey(f"{path} or its folder belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise NoKey(f"{path} can be read by others; remove it, and a new one is made")
        if stat.S_IMODE(around.st_mode) & 0o002:
            raise NoKey(f"{path.parent} can be written by everybody; chmod o-w mends that")
        content = file.read(200)
    if not _KEY.fullmatch(content):
        raise NoKey(f"{path} is no key; remove it, and a new one is made")
    secret = bytes.fromhex(content.decode().strip())
    return Key(secret, hashlib.sha256(b"grpo-run key\n" + secret).hexdigest()[:16])


def _make(path: Path) -> None:
    """Puts a new key in its place, unless there is one by now. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    writing = path.with_name(f".{KEY_FILE}.{os.getpid()}.{os.urandom(4).hex()}.writing")
    descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(f"{os.urandom(32).hex()}\n".encode())
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(writing, path)  # fails where another process was first, as renaming would not
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(writing, path)
    finally:
        writing.unlink(missing_ok=True)
