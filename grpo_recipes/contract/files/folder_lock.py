"""Locks a run folder so that only one training uses it; the kernel releases the lock when its process ends.

The lock is a POSIX one rather than flock(2): NFS passes it to its server, so machines see each other's locks, and
children of the holder, such as data loaders or a vLLM engine, do not keep it if the holder is killed. A POSIX lock is
lost when its process closes any descriptor of the file, which a reward function that reads the folder may do. So on
Linux a second lock, of the open file, backs it up on a different byte, and forked children close that file.
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
# The bytes of the first lock, and the byte after them for the second; the file need not be that long.
_FIRST_LENGTH = 1 << 62
_RANGES = ((0, _FIRST_LENGTH), (_FIRST_LENGTH, 1))
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
            if _locking_process(lock.fileno()) is not None:
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
    """Takes the second lock. Raises OSError if another process has it; does nothing on systems without such locks."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, *_RANGES[1], 0))
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            raise


def _close_in_child() -> None:
    """Closes the file in a forked child, which would otherwise keep the second lock when its parent is killed."""
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
        process = _locking_process(lock)
        is_elsewhere = not process or (owner.host is not None and owner.host != socket.gethostname())
        if owner.pid is not None and (is_elsewhere or owner.pid == process):
            return owner
        if time.monotonic() > give_up:
            return Holder(path, pid=process or None) if not is_elsewhere else owner
        time.sleep(0.02)


def _read_holder(path: Path, lock: int) -> Holder:
    try:
        content = cast("dict[str, Any]", parse_json(os.pread(lock, 1 << 12, 0)))
        owner = Holder(path, str(content["host"]), int(content["pid"]), str(content["since"]), content["launch"])
        if isinstance(content.get("job"), str):  # missing in folders that an older grpo-run locked
            owner = replace(owner, job=content["job"], start=int(content["start"]))
        return owner if f"{owner.host}{owner.since}".isprintable() else Holder(path)
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(path)


def _locking_process(lock: int) -> int | None:
    """The process that holds the lock, 0 or less if it is on a different machine, None if there is none."""
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    for span in _RANGES:
        asked = struct.pack(_STRUCT_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, *span, 0)
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
