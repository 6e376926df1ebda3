"""One run folder, one training: a lock of the kernel, which lets go when its process ends in any way.

It is a POSIX lock, and not one of flock(2): NFS hands it on to its server, so that machines see each other's, and
children of the holder, data loaders or an engine of vLLM, do not hold it on when the holder was killed. Such a lock is
lost when its process closes any descriptor of the file, so only this module opens it.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

TRAINING = ".training.lock"  # rank 0 has it
SERVING = ".serving.lock"  # the process that starts the vLLM server has it
LAUNCHING = ".lock"  # grpo-run has it
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_ANSWER_S = 1.0
_STRUCT_FLOCK = "hhqqi"  # Linux on 64 bits: type, whence, start, length, process
_held: set[Path] = set()


class Busy(Exception):
    """Another process trains the run folder: who, and the way out."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who trains a run folder, as it wrote into the lock. path: of the lock; pid: on its host, None is unknown.

    since: ISO 8601. launch: what all ranks of one launch have in common, see this_launch.
    """

    path: Path
    host: str | None = None
    pid: int | None = None
    since: str | None = None
    launch: str | None = None

    def __str__(self) -> str:
        """The refusal of another training: who holds the folder, and the way out."""
        who = "a process" if self.pid is None else f"process {self.pid}"
        on = "" if self.host is None else f" on {self.host}"
        since = "" if self.since is None else f" since {self.since}"
        gone = f"; if {self.host} is gone, without letting go: rm {self.path}"
        return (
            f"{self.path.parent}: the run is being trained now\n"
            f"  = because: {who}{on} holds {self.path.name}{since}\n"
            f"  = fix: wait for its end, or stop it{'' if self.host in (None, socket.gethostname()) else gone}"
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that this process has. file: its descriptor, which nothing else of this process may open or close."""

    path: Path
    file: int

    def is_in_place(self) -> bool:
        """Whether the folder is still the one that was locked: not removed, renamed or replaced."""
        try:
            there, mine = os.stat(self.path), os.fstat(self.file)
        except OSError:
            return False
        # A file system in user space may number its files anew, which then keep their times.
        is_same_file = (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
        return is_same_file or (there.st_mtime_ns, there.st_size) == (mine.st_mtime_ns, mine.st_size)


def hold(folder: Path, name: str) -> Lock:
    """Takes a lock of a run folder, for the rest of this process if not released, and writes into it who that is.

    Raises Busy where another process has it, and OSError for a folder that cannot be written. A file system without
    locks is gone on with, and that is said.
    """
    path = folder / name
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(path, file)
        except BaseException:
            os.close(file)
            raise
        if _is_the_same(path, file):
            break
        os.close(file)  # someone removed it in between
    _held.add(path)
    own = {"host": socket.gethostname(), "pid": os.getpid(), "since": _now(), "launch": this_launch()}
    with contextlib.suppress(OSError):  # a full disk says so when the run begins
        os.ftruncate(file, 0)
        os.pwrite(file, f"{json.dumps(own)}\n".encode(), 0)
    return Lock(path, file)


@contextlib.contextmanager
def held(folder: Path, name: str) -> Iterator[Lock]:
    """Holds a lock for a while; raises as hold."""
    lock = hold(folder, name)
    try:
        yield lock
    finally:
        _held.discard(lock.path)
        os.close(lock.file)


def holder(folder: Path) -> Holder | None:
    """Who trains, serves or launches a run folder now, this process not counted.

    None where nobody does, or the file system has no locks.
    """
    for path in (folder / TRAINING, folder / SERVING, folder / LAUNCHING):
        if path in _held:
            continue
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if _locking_process(lock) is not None:
                return _holder(path, lock)
        finally:
            os.close(lock)
    return None


def this_launch() -> str | None:
    """What all ranks of a launch know and no other launch: where they meet; None for a single process."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    return None if address is None or port is None else f"{address}:{port}"


def _lock(path: Path, file: int) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            raise Busy(str(_holder(path, file))) from None
        if problem.errno not in _NO_LOCKS:
            raise
        print(f"note: two runs in this folder would not see each other: {path.name}: {problem.strerror}", flush=True)


def _holder(path: Path, lock: int) -> Holder:
    """The holder as it wrote itself down, for which it is given a moment; what is there may be of an earlier one."""
    give_up = time.monotonic() + _ANSWER_S
    while True:
        found = _written(path, lock)
        process = _locking_process(lock)
        is_elsewhere = not process or (found.host is not None and found.host != socket.gethostname())
        if found.pid is not None and (is_elsewhere or found.pid == process):
            return found
        if time.monotonic() > give_up:
            return Holder(path, pid=process or None) if not is_elsewhere else found
        time.sleep(0.02)


def _written(path: Path, lock: int) -> Holder:
    try:
        said = json.loads(os.pread(lock, 1 << 12, 0))
        return Holder(path, str(said["host"]), int(said["pid"]), str(said["since"]), said["launch"])
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(path)


def _locking_process(lock: int) -> int | None:
    """The process that holds the lock, 0 or less where it is of another machine; None when nobody does."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    asked = struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = struct.unpack(_STRUCT_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if answer[0] == fcntl.F_UNLCK else max(0, int(answer[4]))


def _is_the_same(path: Path, lock: int) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(lock)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
