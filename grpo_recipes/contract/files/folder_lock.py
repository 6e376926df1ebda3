"""Locks a run folder so that only one training uses it; the kernel releases the lock when its process ends.

The lock is one of the open file, which NFS passes to its server, so machines see each other's locks. A lock of the
process would be lost when the process closes any descriptor of the file, which a reward function that reads the folder
may do. Forked children, such as data loaders, close the file, so they do not keep the lock if the holder is killed.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import parse_json
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
_STRUCT_FLOCK = "hhqqi"  # 64-bit Linux: type, whence, start, length, process
_held: dict[Path, int] = {}


class Busy(Mistake):
    """The run folder is in use; the text says which process trains it, and what to do."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that trains a run folder, as it wrote itself into the lock. path: of the lock; pid: on its host.

    since: ISO 8601. launch: shared by all ranks of one launch, see this_launch. job, start: see _job_start. None is
    unknown.
    """

    path: Path
    host: str | None = None
    pid: int | None = None
    since: str | None = None
    launch: str | None = None
    job: str | None = None
    start: int = 0

    def is_over(self) -> bool:
        """Whether this is an earlier start of this process's job, on a different machine.

        A cluster ends a start before it begins the next one. If the machine was lost, a file server may keep the lock:
        NFS 3 does so until that machine is up again.
        """
        job, start = _job_start()
        return self.job is not None and self.job == job and self.start < start and self.host != socket.gethostname()

    def refusal(self) -> Finding:
        """The error for a second training: which process holds the folder, and what to do."""
        who = "a process" if self.pid is None else f"process {self.pid}"
        on = "" if self.host is None else f" on {self.host}"
        since = "" if self.since is None else f" since {self.since}"
        gone = f"; if {self.host} is gone but still holds the lock: rm {self.path}"
        return mistake(
            f"{self.path.parent}: the run is being trained now",
            because=f"{who}{on} holds {self.path.name}{since}",
            fix=f"wait until it ends, or stop it{'' if self.host in (None, socket.gethostname()) else gone}",
        )


@dataclass(frozen=True, slots=True)
class FolderLock:
    """A lock held by this process. file: its descriptor, which nothing else in this process may open or close."""

    path: Path
    file: int

    def is_in_place(self) -> bool:
        """Whether the locked folder is still in place: not removed, renamed or replaced."""
        try:
            there, mine = status(self.path.parent, self.path.name), os.fstat(self.file)
        except OSError:
            return False
        if there is None:
            return False
        # FUSE file systems may renumber their files, which then keep their times.
        is_same_file = (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
        return is_same_file or (there.st_mtime_ns, there.st_size) == (mine.st_mtime_ns, mine.st_size)


def hold(folder: Path, name: str) -> FolderLock:
    """Takes a lock of a run folder, until it is released or the process ends, and writes the holder into it.

    Raises Busy if another process has it, and OSError for a folder that cannot be written. Warns and continues if the
    file system has no locks, and if the lock belongs to a start that is over. If the file is a hard link to that of a
    different folder and nobody holds it, a new file replaces it.
    """
    path = folder / name
    for may_be_shared in (False, False, True):  # accept it if a file system always counts a second name
        file = _lock_file(path)
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
    with contextlib.suppress(OSError):  # a full disk is reported when the run begins
        os.ftruncate(file, 0)
        os.pwrite(file, f"{json.dumps(own)}\n".encode(), 0)
    return FolderLock(path, file)


def _lock_file(path: Path) -> int:
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
        os.close(file)  # it was removed in between


@contextlib.contextmanager
def hold_lock(folder: Path, name: str) -> Iterator[FolderLock]:
    """Holds a lock while the block runs. Raises as `hold`."""
    lock = hold(folder, name)
    try:
        yield lock
    finally:
        _held.pop(lock.path, None)
        os.close(lock.file)


def holder(folder: Path) -> Holder | None:
    """The process that trains, serves or launches a run folder now, other than this one.

    None if there is none, or if the file system has no locks.
    """
    for path in (folder / TRAINING, folder / SERVING, folder / LAUNCHING):
        if path in _held:
            continue
        try:
            lock = open_to_read(folder, path.name)  # works without write permission
        except OSError:
            continue
        with lock:
            if _is_locked(lock.fileno()):
                return _holder(path, lock.fileno())
    return None


def this_launch() -> str | None:
    """An id shared by the ranks of one launch, from their rendezvous address; None for a single process."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    return None if address is None or port is None else f"{address}:{port}"


def _job_start() -> tuple[str | None, int]:
    """The id of a job that its cluster restarts, None without one, and the number of this start, from 0."""
    job, _, start = os.environ.get(JOB_START, "").partition(":")
    return job or None, int(start) if start.isdecimal() else 0


def _lock(path: Path, file: int) -> None:
    try:
        if path not in _held:
            _ask_kernel(file, fcntl.F_OFD_SETLK)
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


def _ask_kernel(file: int, command: int) -> tuple[int, int]:
    """Takes the lock, or asks for the type and the process of the lock that is in its way. Raises OSError."""
    asked = struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, process = struct.unpack(_STRUCT_FLOCK, fcntl.fcntl(file, command, asked))
    return kind, process


def _close_in_child() -> None:
    """Closes the file in a forked child, which would otherwise keep the lock when its parent is killed."""
    for file in _held.values():
        with contextlib.suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _holder(path: Path, lock: int) -> Holder:
    """The holder as written in the lock; waits a moment for that, since the content may be of an earlier holder."""
    give_up = time.monotonic() + _ANSWER_S
    while True:
        owner = _read_holder(path, lock)
        is_elsewhere = owner.host is not None and owner.host != socket.gethostname()
        if is_elsewhere or os.path.exists(f"/proc/{owner.pid}") or time.monotonic() > give_up:
            return owner
        time.sleep(0.02)


def _read_holder(path: Path, lock: int) -> Holder:
    try:
        content = cast("dict[str, Any]", parse_json(os.pread(lock, 1 << 12, 0)))
        texts = str(content["host"]), int(content["pid"]), str(content["since"])
        owner = Holder(path, *texts, content["launch"], content["job"], int(content["start"]))
        return owner if f"{owner.host}{owner.since}".isprintable() else Holder(path)
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(path)


def _is_locked(lock: int) -> bool:
    """Whether another open file has the lock."""
    try:
        return _ask_kernel(lock, fcntl.F_OFD_GETLK)[0] != fcntl.F_UNLCK
    except OSError:
        return False


def _is_the_same(path: Path, lock: int) -> bool:
    there, mine = status(path.parent, path.name), os.fstat(lock)
    return there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
