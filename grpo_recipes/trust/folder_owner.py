"""Checks that a folder belongs to this user alone: nobody else can write or replace anything in it.

Each part of a path is opened below the previous one and never through a link, and the opened file is checked rather
than its name.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.files.regular_file import kind
from grpo_recipes.contract.integrity.seal import ALLOWED_FILE, NoKey, listed_digests, user_folder

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OF_A_RUN = ("plan.json", "launch.sh")
_LARGEST_BYTES = 16 << 20


class NotOwn(Exception):
    """A folder, or something in it, is not private to this user; the text says what and why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a folder, which a different one of the same name does not share. path: without links."""

    path: str
    user: int
    device: int
    inode: int


def identity(folder: str) -> Identity:
    """The identity of the folder at a path, if it is private to this user. Raises NotOwn."""
    path = os.path.realpath(folder)
    if any(os.path.commonpath([home, path]) == path for home in _homes()):
        raise NotOwn(f"{path} holds all of this user's files, including downloads")
    with _named(path):
        for above in Path(path).parents:
            _refuse_a_place_of_others(str(above), os.lstat(above))
            if _is_a_run(above):
                raise NotOwn(f"{above} is a run folder, which somebody else may have written")
        descriptor = _opened_folder(path)
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    return Identity(path, status.st_uid, status.st_dev, status.st_ino)


def _homes() -> Iterator[str]:
    """The home of this user, according to the environment and to the system."""
    yield os.path.realpath(os.path.expanduser("~"))
    with contextlib.suppress(KeyError):
        yield os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)


def own_sha256(folder: Identity, file: str) -> str:
    """The digest of a file below a private folder. Raises NotOwn if it, or a folder on its path, is not private."""
    parts = os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)), folder.path)
    if parts.startswith(os.pardir):
        raise NotOwn(f"{file} is not below {folder.path}")
    with _named(file), _walked(folder, parts.split(os.sep)) as content:
        return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _walked(folder: Identity, parts: Sequence[str]) -> Iterator[bytes]:
    """The content of a file below a folder."""
    path = folder.path
    here = _opened_folder(path)
    try:
        if (found := os.fstat(here)).st_dev != folder.device or found.st_ino != folder.inode:
            raise NotOwn(f"{path} is a different folder now")
        for part in parts[:-1]:
            path = os.path.join(path, part)
            below = _opened_folder(part, path, here)
            os.close(here)
            here = below
        yield _content(os.path.join(path, parts[-1]), parts[-1], here)
    finally:
        os.close(here)


def _opened_folder(name: str, path: str | None = None, within: int | None = None) -> int:
    descriptor = os.open(name, _FOLDER, dir_fd=within)
    try:
        _refuse_what_is_not_own(path or name, os.fstat(descriptor))
        if _is_a_run(descriptor):
            raise NotOwn(f"{path or name} is a run folder, which somebody else may have written")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _content(path: str, name: str, within: int) -> bytes:
    with open(os.open(name, _FILE, dir_fd=within), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotOwn(f"{path}: {kind(status)}")
        _refuse_what_is_not_own(path, status)
        content = file.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise NotOwn(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB")
    return content


def _refuse_what_is_not_own(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise NotOwn(f"{path} belongs to another user")
    if status.st_mode & _OTHERS:
        raise NotOwn(f"{path} can be written by others; chmod go-w fixes that")


def _refuse_a_place_of_others(path: str, status: os.stat_result) -> None:
    """Checks the parent folder: in a sticky one like /tmp, nobody can move or remove other users' entries."""
    if status.st_uid not in (os.geteuid(), 0):
        raise NotOwn(f"{path}, which contains it, belongs to another user")
    if status.st_mode & _OTHERS and not status.st_mode & stat.S_ISVTX:
        raise NotOwn(f"{path}, which contains it, can be written by others; chmod go-w fixes that")


def _is_a_run(folder: Path | int) -> bool:
    """Whether a folder looks like a run folder; one that cannot be listed can still be entered."""
    found = 0
    for name in _OF_A_RUN:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if isinstance(folder, int):
                os.lstat(name, dir_fd=folder)
            else:
                os.lstat(folder / name)
            found += 1
    return found == len(_OF_A_RUN)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Adds the path to the system's error."""
    try:
        yield
    except OSError as problem:
        raise NotOwn(f"{path} cannot be opened without following a link: {problem.strerror or problem}") from problem


# The digests of code that this user has allowed, remembered in a private file.


_SHA256 = re.compile(r"[0-9a-f]{64}")


def allowed_file() -> Path:
    """The path of the digests. Raises Refusal if this user's home is unknown."""
    return remembered(ALLOWED_FILE)


def remembered(name: str) -> Path:
    """The path of a private list. Raises Refusal if this user's home is unknown."""
    try:
        return user_folder() / name
    except NoKey as problem:
        raise Refusal.of("allowed code cannot be remembered", because=str(problem)) from problem


def _listed() -> frozenset[str]:
    """The digests; empty for a user without a home, for whom nothing can be remembered."""
    try:
        return listed_digests()
    except NoKey:
        return frozenset()
    except (OSError, ValueError) as problem:
        raise Refusal.of(
            f"{allowed_file()}: the list of allowed code cannot be read",
            because=f"{type(problem).__name__}: {problem}",
            fix="correct that, or remove the file and allow again the code that you trust",
        ) from problem


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Locks the lists next to a path for one writer; does nothing if the file system has no locks."""
    descriptor = os.open(path.with_name(".allowed.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_allowed(sha256: str) -> bool:
    """Whether this user has allowed the code with this digest. Raises Refusal if the list is unreadable."""
    return sha256 in _listed()


def allow(sha256s: Iterable[str]) -> None:
    """Remembers digests for this user; replaces the private file atomically.

    Raises ValueError for anything but 64 lower-case hexadecimal digits, Refusal if nothing can be remembered.
    """
    new = set(sha256s)
    for sha in new:
        if not _SHA256.fullmatch(sha):
            raise ValueError(f"not a sha256: {sha!r}")
    if new <= _listed():
        return
    replace_list(allowed_file(), "code", lambda: json.dumps({"allowed": sorted(_listed() | new)}, indent=2) + "\n")


def replace_list(path: Path, of: str, text: Callable[[], str]) -> None:
    """Replaces a private list atomically, one writer at a time. of: what is allowed. Raises Refusal."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            write_whole(path.parent, path.name, text(), 0o600)
    except OSError as problem:
        raise Refusal.of(
            f"{path}: the list of allowed {of} cannot be written",
            because=str(problem.strerror or problem),
            fix="free some space and give this user write permission; set XDG_CONFIG_HOME to a different folder",
        ) from problem
