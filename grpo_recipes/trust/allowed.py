"""The digests of code that this user has allowed to run, remembered in a file of the user's own."""

import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.errors import Refusal

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST_BYTES = 16 * 1024**2


def allowed_file() -> Path:
    """Where the digests are: $XDG_CONFIG_HOME/grpo-run/allowed.json, ~/.config without that variable."""
    home = os.environ.get("XDG_CONFIG_HOME")
    # The XDG specification says that a relative path is to be ignored.
    base = Path(home) if home and os.path.isabs(home) else Path.home() / ".config"
    return base / "grpo-run" / "allowed.json"


def _read() -> set[str]:
    path = allowed_file()
    try:
        with _opened(path) as file:
            content = json.loads(file.read(_LARGEST_BYTES))
        listed = content["allowed"]
        if not isinstance(listed, list):
            raise ValueError("it is no list of digests")
        return {sha for sha in listed if isinstance(sha, str) and _SHA256.fullmatch(sha)}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise Refusal.of(
            f"{path}: the list of allowed code cannot be read",
            because=f"{type(problem).__name__}: {problem}",
            fix="remove the file and allow again what you trust",
        ) from problem


def _opened(path: Path) -> BinaryIO:
    """The list, if nobody else can have put it there. Raises OSError, and ValueError for what others may write."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(descriptor, "rb")  # noqa: SIM115 - handed to the caller
    try:
        for what, status in ((path, os.fstat(descriptor)), (path.parent, os.stat(path.parent))):
            if status.st_uid not in (os.geteuid(), 0):
                raise ValueError(f"{what} belongs to another user, who could allow anything")
            if status.st_mode & stat.S_IWOTH and not (what == path.parent and status.st_mode & stat.S_ISVTX):
                raise ValueError(f"{what} can be written by everybody, who could allow anything")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is no regular file")
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One writer at a time of the lists beside a path; where a file system has no locks, as it is."""
    descriptor = os.open(path.with_name(".allowed.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_allowed(sha256: str) -> bool:
    """Whether this user has allowed the code with this digest. Raises Refusal if the list is unreadable."""
    return sha256 in _read()


def allow(sha256s: Iterable[str]) -> None:
    """Remembers digests for this user; the file is replaced at once and only its owner can read it.

    Raises ValueError for anything but 64 lower-case hexadecimal digits, Refusal where nothing can be remembered.
    """
    new = set(sha256s)
    for sha in new:
        if not _SHA256.fullmatch(sha):
            raise ValueError(f"not a sha256: {sha!r}")
    if new <= _read():
        return
    path = allowed_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path):
            text = json.dumps({"allowed": sorted(_read() | new)}, indent=2) + "\n"
            write_whole(path.parent, path.name, text, 0o600)
    except OSError as problem:
        raise Refusal.of(
            f"{path}: the list of allowed code cannot be written",
            because=str(problem.strerror or problem),
            fix="make room for it and let this user write there; XDG_CONFIG_HOME names another place",
        ) from problem
