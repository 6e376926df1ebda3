"""One run folder, one training: a lock of the kernel, which lets go when its process ends in any way.

It is a POSIX lock, and not one of flock(2): NFS hands it on to its server, so that machines see each other's, and
children of the holder, data loaders or an engine of vLLM, do not hold it on when the holder was killed. Such a lock is
lost when its process closes any descriptor of the file, as a reward function may that looks around: so, where Linux has
them, a lock of the open file itself stands behind it, on a byte of its own, and forked children close that file.
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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import open_in_place, open_to_read, remove, status
from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.findings_text import Mistake

TRAINING = ".training.lock"  # rank 0 has it
SERVING = ".serving.lock"  # the process that starts the vLLM server has it
LAUNCHING = ".lock"  # grpo-run has it
JOB_START = "GRPO_RUN_JOB_START"
"""The variable with a job and the number of its start: "41:0"."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_ANSWER_S = 1.0
_STRUCT_FLOCK = "hhqqi"  # Linux on 64 bits: type, whence, start, length, process
# The bytes of the first lock, and the byte behind them for the second one; no such bytes have to be there.
_FIRST_LENGTH = 1 << 62
_RANGES = ((0, _FIRST_LENGTH), (_FIRST_LENGTH, 1))
_held: dict[Path, int] = {}


class Busy(Mistake):
    """Another process trains the run folder: who, and the way out."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who trains a run folder, as it wrote into the lock. path: of the lock; pid: on its host, None is unknown.

    since: ISO 8601. launch: what all ranks of one launch have in common, see this_launch. job, start: as _job_start.
    """

    path: Path
    host: str | None = None
    pid: int | None = None
    since: str | None = None
    launch: str | None = None
    job: str | None = None
    start: int = 0

    def is_over(self) -> bool:
        """Whether this is an earlier start of this process's job, on another machine.

        A cluster ends a start before it begins the next one. If its machine was lost, a file server may keep the lock:
        NFS 3 does so until that machine is up again.
        """
        job, start = _job_start()
        return self.job is not None and self.job == job and self.start < start and self.host != socket.gethostname()

    def refusal(self) -> Finding:
        """What is said to another training: who holds the folder, and the way out."""
        who = "a process" if self.pid is None else f"process {self.pid}"
        on = "" if self.host is None else f" on {self.host}"
        since = "" if self.since is None else f" since {self.since}"
        gone = f"; if {self.host} is gone, without letting go: rm {self.path}"
        return mistake(
            f"{self.path.parent}: the run is being trained now",
            because=f"{who}{on} holds {self.path.name}{since}",
            fix=f"wait for its end, or stop it{'' if self.host in (None, socket.gethostname()) else gone}",
        )


@dataclass(frozen=True, slots=True)
class FolderLock:
    """A lock that this process has. file: its descriptor, which nothing else of this process may open or close."""

    path: Path
    file: int

    def is_in_place(self) -> bool:
        """Whether the folder is still the one that was locked: not removed, renamed or replaced."""
        try:
            there, mine = status(self.path.parent, self.path.name), os.fstat(self.file)
        except OSError:
            return False
        if there is None:
            return False
        # A file system in user space may number its files anew, which then keep their times.
        is_same_file = (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
        return is_same_file or (there.st_mtime_ns, there.st_size) == (mine.st_mtime_ns, mine.st_size)


def hold(folder: Path, name: str) -> FolderLock:
    """Takes a lock of a run folder, for the rest of this process if not released, and writes into it who that is.

    Raises Busy where another process has it, and OSError for a folder that cannot be written. It goes on, and says so,
    where the file system has no locks and where the lock is of a start that is over. If the file is a hard link to that
    of another folder and nobody holds it, a new file takes its place.
    """
    path = folder / name
    for may_be_shared in (False, False, True):  # a file system that always counts another name is gone on with
        file = _locked(path)
        if may_be_shared or os.fstat(file).st_nlink <= 1:
            break
        remove(folder, name)
        os.close(file)
    _held[path] = file
    own: dict[str, object] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": _now(),
        "launch": this_launch(),
    }
    own["job"], own["start"] = _job_start()
    with contextlib.suppress(OSError):  # a full disk says so when the run begins
        os.ftruncate(file, 0)
        os.pwrite(file, f"{json.dumps(own)}\n".encode(), 0)
    return FolderLock(path, file)


def _locked(path: Path) -> int:
    """The descriptor of the file at a path, locked."""
    while True:
        file = open_in_place(path.parent, path.name, make=True)
        try:
            _lock(path, file)
        except BaseException:
            os.close(file)
            raise
        if _is_the_same(path, file):
            return file
        os.close(file)  # someone removed it in between


@contextlib.contextmanager
def held(folder: Path, name: str) -> Iterator[FolderLock]:
    """Holds a lock for a while; raises as hold."""
    lock = hold(folder, name)
    try:
        yield lock
    finally:
        _held.pop(lock.path, None)
        os.close(lock.file)


def holder(folder: Path) -> Holder | None:
    """Who trains, serves or launches a run folder now, this process not counted.

    None where nobody does, or the file system has no locks.
    """
    for path in (folder / TRAINING, folder / SERVING, folder / LAUNCHING):
        if path in _held:
            continue
        try:
            lock = open_to_read(folder, path.name)  # also one that this user may not write
        except OSError:
            continue
        with lock:
            if _locking_process(lock.fileno()) is not None:
                return _holder(path, lock.fileno())
    return None


def this_launch() -> str | None:
    """What all ranks of a launch know and no other launch: where they meet; None for a single process."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    return None if address is None or port is None else f"{address}:{port}"


def _job_start() -> tuple[str | None, int]:
    """The job that a cluster starts again, as its script says, None without one; and which start this is, from 0."""
    job, _, start = os.environ.get(JOB_START, "").partition(":")
    return job or None, int(start) if start.isdecimal() else 0


def _lock(path: Path, file: int) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _FIRST_LENGTH)
        if path not in _held:
            _lock_open_file(file)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            other = _holder(path, file)
            if not other.is_over():
                raise Busy(other.refusal()) from None
            print(f"note: {path.name} was left by start {other.start + 1} of this job on {other.host}", flush=True)
            remove(path.parent, path.name)
            return
        if problem.errno not in _NO_LOCKS:
            raise
        print(f"note: two runs in this folder would not see each other: {path.name}: {problem.strerror}", flush=True)


def _lock_open_file(file: int) -> None:
    """The second lock. Raises OSError where another process has it; a system without such locks is gone on with."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, *_RANGES[1], 0))
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            raise


def _close_in_child() -> None:
    """A forked child must not hold the second lock on when its parent was killed."""
    for file in _held.values():
        with contextlib.suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


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
        said = cast("dict[str, Any]", parsed(os.pread(lock, 1 << 12, 0)))
        found = Holder(path, str(said["host"]), int(said["pid"]), str(said["since"]), said["launch"])
        if isinstance(said.get("job"), str):  # not of folders that an older grpo-run locked
            found = replace(found, job=said["job"], start=int(said["start"]))
        return found if f"{found.host}{found.since}".isprintable() else Holder(path)
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(path)


def _locking_process(lock: int) -> int | None:
    """The process that holds the lock, 0 or less where it is of another machine; None when nobody does."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    for place in _RANGES:
        asked = struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, *place, 0)
        try:
            answer = struct.unpack(_STRUCT_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, asked))
        except OSError:
            return None
        if answer[0] != fcntl.F_UNLCK:
            return max(0, int(answer[4]))
    return None


def _is_the_same(path: Path, lock: int) -> bool:
    there, mine = status(path.parent, path.name), os.fstat(lock)
    return there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
