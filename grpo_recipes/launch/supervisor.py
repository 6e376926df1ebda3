"""Stands between grpo-run and the training so that no process is left behind, whoever is killed.

Run as a program of its own by its path, with the standard library alone:

    supervisor.py FOLDER PARENT_PID [ARGUMENT ...]

It starts FOLDER/launch.sh with the arguments and ends as that does, with 128 + n for signal n. A first signal
asks the trainers to stop, a second one kills everything, and so does the death of grpo-run.

torchrun, which accelerate starts, puts each trainer into a session of its own and gives it 30 seconds at
a SIGTERM, then kills it. So no group holds them all, and the trainers are told directly: the launcher
above them then waits for as long as they save.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_POLL_S = 1.0
_LEAVE_S = 1.0
_GIVE_UP_S = 20.0
_TRAINER = "worker/train.py"
_SERVING = "worker/serve.py"


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of /proc: argv is the command line, empty for a kernel thread or a zombie."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    is_zombie: bool


def _prctl(option: int, value: int) -> None:
    """Sets an attribute of this process on Linux; elsewhere there is nothing of the kind."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _all_processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command in parentheses may hold spaces and parentheses of its own.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            with open(f"/proc/{name}/cmdline", "rb") as file:
                argv = file.read().decode(errors="replace").split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield Process(int(name), int(parent), tuple(argv), state == b"Z")


def descendants(ancestor: int) -> list[Process]:
    """All living processes below one, parents before children; empty where there is no /proc."""
    if not os.path.exists("/proc/self/stat"):
        return []
    children: dict[int, list[Process]] = {}
    for process in _all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return [process for process in found if not process.is_zombie]


def trainers(processes: list[Process]) -> list[int]:
    """Process ids of the ranks, which run worker/train.py, without the launcher above and the helpers below.

    Data loading processes are forks with the same command line; told to stop, they would break their rank.
    """
    ranks: set[int] = set()
    inside: set[int] = set()
    for process in processes:
        is_trainer = "-m" not in process.argv and any(word.endswith(_TRAINER) for word in process.argv)
        if process.parent in inside or process.parent in ranks:
            inside.add(process.pid)
        elif is_trainer:
            ranks.add(process.pid)
    return sorted(ranks)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap(launcher: subprocess.Popen[bytes]) -> None:
    """Collects ended processes that became ours when their parent died; the launcher is left to Popen."""
    for process in list(_zombies()):
        if process != launcher.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)


def _zombies() -> Iterator[int]:
    if os.path.exists("/proc/self/stat"):
        me = os.getpid()
        yield from (process.pid for process in _all_processes() if process.is_zombie and process.parent == me)


def _kill_all(launcher: subprocess.Popen[bytes]) -> None:
    """Kills every process below, again until none is left, since one may start another meanwhile."""
    give_up = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up:
        living = [process.pid for process in descendants(os.getpid())]
        if launcher.poll() is None and launcher.pid not in living:
            living.append(launcher.pid)
        if not living:
            break
        _send(living, signal.SIGKILL)
        time.sleep(0.02)
        _reap(launcher)


def _ask_trainers(launcher: subprocess.Popen[bytes]) -> None:
    """Tells the ranks to save and stop, or the launcher while there are none yet.

    Beside a vLLM server one process watches ranks and server: it is told, and passes it on.
    """
    below = descendants(os.getpid())
    serving = [process.pid for process in below if any(word.endswith(_SERVING) for word in process.argv)]
    _send(serving or trainers(below) or [launcher.pid], signal.SIGTERM)


def _start(folder: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    def before_exec() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        ["bash", os.path.join(folder, "launch.sh"), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        preexec_fn=before_exec,
    )


def _watch(launcher: subprocess.Popen[bytes], wakeup: int, parent: int) -> None:
    """Returns when the launcher has ended."""
    is_asked = False
    while launcher.poll() is None:
        select.select([wakeup], [], [], _POLL_S)
        signals: list[int] = []
        with contextlib.suppress(BlockingIOError):
            signals += os.read(wakeup, 64)
        asked = sum(number in _ASKING for number in signals)
        if os.getppid() != parent or asked > 1 or (asked and is_asked):
            _kill_all(launcher)
        elif asked:
            is_asked = True
            _ask_trainers(launcher)


def main(folder: str, parent: int, arguments: list[str]) -> int:
    """Trains a folder to its end and returns the exit code of launch.sh, 128 + n for signal n."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_ASKING, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    launcher = _start(folder, arguments)
    try:
        _watch(launcher, reading, parent)
        leaving = time.monotonic() + _LEAVE_S
        while descendants(os.getpid()) and time.monotonic() < leaving:
            time.sleep(0.05)
            _reap(launcher)
    finally:
        _kill_all(launcher)
    code = launcher.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
