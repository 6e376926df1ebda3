"""Finds, signals and kills the processes below this one, so that none is left behind. Standard library only."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Signals that ask a run to save and stop; Slurm sends SIGUSR1 before a time limit.
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_CHILD_SUBREAPER = 36
_TRAINER = "worker/train.py"
_LAUNCHER = "GRPO_RUN_LAUNCHER"
_GIVE_UP_S = 20.0


@dataclass(frozen=True, slots=True)
class Process:
    """An entry of /proc. group: process group; argv: command line, empty for a kernel thread or a zombie.

    state: one letter, "Z" for a zombie, "T" and "t" for a stopped one.
    """

    pid: int
    parent: int
    group: int
    argv: tuple[str, ...]
    state: str

    @property
    def is_zombie(self) -> bool:
        """Whether the process has ended and was not waited for."""
        return self.state == "Z"


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants, so that they can be found. Linux only."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ask_before_dying() -> bool:
    """Replaces a parent's order of SIGKILL on its death by SIGTERM; returns whether there was one.

    Only a supervising parent gives that order; a shell that started the run by hand may end without ending it.
    """
    ordered = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_PDEATHSIG, ctypes.byref(ordered), 0, 0, 0)
    if ordered.value:
        die_with_parent(signal.SIGTERM)
    return bool(ordered.value)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Makes the kernel send this process a signal when its parent dies; survives exec, but is not inherited."""
    prctl(_PR_SET_PDEATHSIG, number)


def be_launcher() -> None:
    """Makes the kernel kill this process with its parent, and tells the ranks below it which process it is.

    Call it in a new child before exec, which inherits the environment.
    """
    die_with_parent()
    os.environ[_LAUNCHER] = str(os.getpid())


def launcher_is_gone() -> bool:
    """Whether the launcher above this rank has already ended, so its death no longer sends a signal."""
    launcher = os.environ.get(_LAUNCHER, "")
    return launcher.isdecimal() and process(int(launcher)) is None and sys.platform == "linux"


def process(pid: int) -> Process | None:
    """A process by its number, None if it does not exist or there is no /proc."""
    folder = Path("/proc", str(pid))
    try:
        # The command in parentheses may itself contain spaces and parentheses.
        state, parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        argv = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(pid, int(parent), int(group), tuple(argv), state.decode())


def all_processes() -> Iterator[Process]:
    """Every visible process; none without /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        visible = process(int(folder.name))
        if visible is not None:
            yield visible


def descendants(ancestor: int) -> list[Process]:
    """All living descendants of a process, parents before children."""
    children: dict[int, list[Process]] = {}
    for each in all_processes():
        children.setdefault(each.parent, []).append(each)
    family: list[Process] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        family += below
        waiting += [each.pid for each in below]
    return [each for each in family if not each.is_zombie]


def ranks(processes: Iterable[Process]) -> list[int]:
    """The process ids of the ranks, which run worker/train.py. processes: sorted parents first.

    Excludes the launcher above them and everything below: data loaders are forks with the same command line, and
    stopping them would break their rank.
    """
    ids: set[int] = set()
    inside: set[int] = set()
    for each in processes:
        if each.parent in inside or each.parent in ids:
            inside.add(each.pid)
        elif "-m" not in each.argv and any(word.endswith(_TRAINER) for word in each.argv):
            ids.add(each.pid)
    return sorted(ids)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those that are still alive."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill(child: subprocess.Popen[bytes], *, spared: int | None = None) -> None:
    """Kills a child, its group and all its descendants, repeatedly, since one may start another.

    Spares the process group `spared`.
    """

    def living() -> set[int]:
        below = {each.pid for each in descendants(child.pid)}
        return {
            each.pid
            for each in descendants(os.getpid())
            if each.group != spared and (each.pid in below or child.pid in (each.pid, each.group))
        }

    _kill_until_none(living, child)


def kill_all_below(children: Iterable[subprocess.Popen[bytes]] = ()) -> None:
    """Kills the children and every process below this one, including adopted ones, also without /proc."""
    _kill_until_none(lambda: {each.pid for each in descendants(os.getpid())}, *children)


def _kill_until_none(living: Callable[[], set[int]], *children: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up:
        pids = living() | {child.pid for child in children if child.poll() is None}
        if not pids:
            return
        send(pids, signal.SIGKILL)
        time.sleep(0.02)
        reap(*children)


def reap(*children: subprocess.Popen[bytes]) -> None:
    """Collects adopted processes that have ended; leaves to Popen the ones that it waits for."""
    own, me = {child.pid for child in children}, os.getpid()
    for child in children:
        child.poll()
    for each in all_processes():
        if each.is_zombie and each.parent == me and each.pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process on Linux; does nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
