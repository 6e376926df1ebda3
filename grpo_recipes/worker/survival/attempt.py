"""Runs launch.sh once on a machine of a cluster, and exits with the run's exit code.

    python -P worker/part.py survival.attempt FOLDER [ARGUMENT ...]

The cluster restarts the machine only for exit code 75. launch.sh's own code is not precise enough: torch's launcher
turns every failure into 1, and a vLLM server exits with 0 if its trainers were interrupted. The exit code is therefore
taken from run.json. A start that finds a run.json resumes; a completed run is left unchanged.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_INTERRUPTED
from grpo_recipes.contract.files.folder_files import status
from grpo_recipes.contract.files.folder_lock import TRAINING, holder
from grpo_recipes.contract.host.supervisor import supervise
from grpo_recipes.worker._shared.record import Record

# The other machines notice a lost one only when a collective times out, after trl.ddp_timeout.
_OTHERS_END_S = 3600.0
_LOST_END_S = 60.0  # for a start whose machine was lost, and whose lock is never released
# Machine 0 records how the run ended after the others have ended; a network file system shows it later.
_RECORD_S = 60.0
_POLL_S = 1.0
_ASKED_TO_END = 128 + signal.SIGTERM


def attempt(folder: Path, arguments: Sequence[str], parent: int) -> int:
    """Runs launch.sh to its end and returns the run's exit code. parent: the process that started this one."""
    is_server = "--server" in arguments
    if "--address" in arguments:
        _wait_for_name(folder, arguments[arguments.index("--address") + 1])
    if _is_completed(folder):
        print("the run is completed", file=sys.stderr, flush=True)
        return EXIT_DONE
    if not is_server:
        _wait_for_others(folder)
    before = _version(folder)
    resume = ["--resume"] if before is not None and not is_server else []
    code = supervise(str(folder), parent, [*arguments, *resume])
    if code == EXIT_DONE and not is_server:
        return code
    give_up = time.monotonic() + (_RECORD_S if arguments else 0.0)
    while (end := _ended(folder, before)) is None and time.monotonic() < give_up:
        time.sleep(_POLL_S)
    if end is not None:
        return end
    return EXIT_INTERRUPTED if code in (EXIT_DONE, _ASKED_TO_END) else code


def _wait_for_name(folder: Path, address: str) -> None:
    """Waits until the first machine's name resolves; it stops resolving once that machine has completed.

    If a launcher looks a name up too early, the lookup keeps failing for a while.
    """
    while not _is_completed(folder):
        with contextlib.suppress(OSError):
            socket.getaddrinfo(address, None)
            return
        time.sleep(_POLL_S)


def _is_completed(folder: Path) -> bool:
    return Record(folder, 0).read().get("status") == "completed"


def _wait_for_others(folder: Path) -> None:
    """Waits while an earlier start still trains in this folder; it ends once it notices that this machine was lost."""
    began, is_told = time.monotonic(), False
    while (other := holder(folder)) is not None and other.path.name == TRAINING:
        if time.monotonic() - began > (_LOST_END_S if other.is_over() else _OTHERS_END_S):
            break
        if not is_told:
            print(f"waiting for an earlier start of the run on {other.host}", file=sys.stderr, flush=True)
            is_told = True
        time.sleep(_POLL_S)


def _ended(folder: Path, before: tuple[int, int] | None) -> int | None:
    """Returns this start's exit code in run.json, None if it has no exit code yet."""
    record = Record(folder, 0).read() if _version(folder) != before else {}
    code = record.get("exit_code")
    return code if record.get("status") != "running" and isinstance(code, int) else None


def _version(folder: Path) -> tuple[int, int] | None:
    """Returns a value that changes with each write of run.json; None before the first."""
    found = status(folder, "run.json")
    return None if found is None else (found.st_ino, found.st_mtime_ns)


def _leave(number: int, _: object) -> None:
    sys.exit(EXIT_INTERRUPTED)


def main(arguments: Sequence[str]) -> int:
    """Runs one attempt. The kernel ignores signals to a container's first process that have no handler."""
    signal.signal(signal.SIGTERM, _leave)
    folder, *more = arguments
    return attempt(Path(folder).resolve(), more, os.getppid())
