"""Processes below this one: who they are, and how none of them stays behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_CHILD_SUBREAPER = 36
_TRAINER = "worker/train.py"
_GIVE_UP_S = 20.0


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of /proc: group is its process group, argv its command line, empty for a zombie."""

    pid: int
    parent: int
    group: int
    argv: tuple[str, ...]
    is_zombie: bool


def adopt_orphans() -> None:
    """Lets processes whose parent died become children of this one, so that they are found again. Linux alone."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ask_before_dying() -> bool:
    """Asks for SIGTERM where a parent had ordered SIGKILL for its own death; returns whether it had.

    Only a parent that watches orders that: one that ends before a run started by hand, a shell, must not end it.
    """
    ordered = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_PDEATHSIG, ctypes.byref(ordered), 0, 0, 0)
    if ordered.value:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return bool(ordered.value)


def die_with_parent() -> None:
    """For a child between fork and exec: the kernel kills it when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def all_processes() -> Iterator[Process]:
    """Every process that can be seen; none where there is no /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The command in parentheses may hold spaces and parentheses of its own.
            state, parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
            argv = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield Process(int(folder.name), int(parent), int(group), tuple(argv), state == b"Z")


def descendants(ancestor: int) -> list[Process]:
    """All living processes below one, parents before children."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return [process for process in found if not process.is_zombie]


def ranks(processes: Iterable[Process]) -> list[int]:
    """The training processes: not the launcher above them, nor their own helpers, which are forks of theirs."""
    found: set[int] = set()
    inside: set[int] = set()
    for process in processes:
        if process.parent in inside or process.parent in found:
            inside.add(process.pid)
        elif "-m" not in process.argv and any(word.endswith(_TRAINER) for word in process.argv):
            found.add(process.pid)
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
    give_up = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up:
        below = {process.pid for process in descendants(child.pid)}
        living = [
            process.pid
            for process in descendants(os.getpid())
            if process.group != spared and (process.pid in below or child.pid in (process.pid, process.group))
        ]
        if child.poll() is None and child.pid not in living:
            living.append(child.pid)
        if not living:
            return
        send(living, signal.SIGKILL)
        time.sleep(0.02)
        reap(child)


def kill_all_below(children: Iterable[subprocess.Popen[bytes]] = ()) -> None:
    """Kills every process below this one, adopted ones too."""
    give_up = time.monotonic() + _GIVE_UP_S
    while (living := [process.pid for process in descendants(os.getpid())]) and time.monotonic() < give_up:
        send(living, signal.SIGKILL)
        time.sleep(0.02)
        reap(*children)


def reap(*children: subprocess.Popen[bytes]) -> None:
    """Collects ended processes that were adopted; those that Popen waits for are left to it."""
    own, me = {child.pid for child in children}, os.getpid()
    for child in children:
        child.poll()
    for process in all_processes():
        if process.is_zombie and process.parent == me and process.pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
