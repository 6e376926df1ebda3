"""Processes below this one: who they are, and how none of them stays behind. The standard library is all it needs."""

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

# What asks a run to save and stop; SIGUSR1 is what Slurm sends ahead of a time limit.
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_CHILD_SUBREAPER = 36
_TRAINER = "worker/train.py"
_LAUNCHER = "GRPO_RUN_LAUNCHER"
_GIVE_UP_S = 20.0


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of /proc: group is its process group, argv its command line, empty for a kernel thread or a zombie.

    state: one letter, "Z" for a zombie, "T" and "t" for one that was stopped.
    """

    pid: int
    parent: int
    group: int
    argv: tuple[str, ...]
    state: str

    @property
    def is_zombie(self) -> bool:
        """Whether the process has ended and nobody has asked how."""
        return self.state == "Z"


def adopt_orphans() -> None:
    """Lets processes whose parent died become children of this one, so that they are found again. Linux alone."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ask_before_dying() -> bool:
    """Asks for SIGTERM where a parent had ordered SIGKILL for its own death; returns whether it had.

    Only a parent that watches orders that: one that ends before a run started by hand, a shell, must not end it.
    """
    ordered = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_PDEATHSIG, ctypes.byref(ordered), 0, 0, 0)
    if ordered.value:
        die_with_parent(signal.SIGTERM)
    return bool(ordered.value)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Lets the kernel send this process a signal when its parent dies; holds over exec, not for children."""
    prctl(_PR_SET_PDEATHSIG, number)


def be_launcher() -> None:
    """Lets the kernel kill this process with its parent, and lets the ranks below it know which process it is.

    Call it in a new child before it becomes its program, which inherits the environment.
    """
    die_with_parent()
    os.environ[_LAUNCHER] = str(os.getpid())


def launcher_is_gone() -> bool:
    """Whether the launcher above this rank has ended already, so that its death sends no signal any more."""
    launcher = os.environ.get(_LAUNCHER, "")
    return launcher.isdecimal() and process(int(launcher)) is None and sys.platform == "linux"


def process(pid: int) -> Process | None:
    """One process, None when there is none of this number, or no /proc."""
    folder = Path("/proc", str(pid))
    try:
        # The command in parentheses may hold spaces and parentheses of its own.
        state, parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        argv = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(pid, int(parent), int(group), tuple(argv), state.decode())


def all_processes() -> Iterator[Process]:
    """Every process that can be seen; none where there is no /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        found = process(int(folder.name))
        if found is not None:
            yield found


def descendants(ancestor: int) -> list[Process]:
    """All living processes below one, parents before children."""
    children: dict[int, list[Process]] = {}
    for each in all_processes():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [each.pid for each in below]
    return [each for each in found if not each.is_zombie]


def ranks(processes: Iterable[Process]) -> list[int]:
    """Process ids of the ranks, which run worker/train.py, of processes that stand after their parents.

    Not the launcher above them, nor what is below: data loaders are forks with the same command line, and told to
    stop, they would break their rank.
    """
    found: set[int] = set()
    inside: set[int] = set()
    for each in processes:
        if each.parent in inside or each.parent in found:
            inside.add(each.pid)
        elif "-m" not in each.argv and any(word.endswith(_TRAINER) for word in each.argv):
            found.add(each.pid)
    return sorted(found)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those that still live."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill(child: subprocess.Popen[bytes], *, spared: int | None = None) -> None:
    """Kills a child, all of its group and all below it, again until none is left, since one may start another.

    Nothing of the process group `spared` is touched.
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
    """Kills every process below this one, adopted ones too, and the children, also where there is no /proc."""
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
    """Collects ended processes that were adopted; those that Popen waits for are left to it."""
    own, me = {child.pid for child in children}, os.getpid()
    for child in children:
        child.poll()
    for each in all_processes():
        if each.is_zombie and each.parent == me and each.pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process on Linux; elsewhere there is nothing of the kind."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
