"""Wraps calls of user code: undoes changes to the process that would affect the run, and prints each once.

It undoes changes that would silently end or change a run: to the working folder, signal handlers, standard streams, the
umask, and the variables that identify the process within the run. A fork that returns would train a second time in the
same folder, so it is ended. SystemExit in a reward becomes an error with the reward's name.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from grpo_recipes.contract.host.processes import ASKING

RAISED_IN = "raised in "
_OF_THE_RUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_WATCHED = (*ASKING, signal.SIGCHLD)
_said: set[tuple[str, str]] = set()
_process = os.getpid()


class RewardLeft(Exception):
    """A reward raised SystemExit or similar."""


@dataclass(frozen=True, slots=True)
class _Before:
    """The state that a call must leave unchanged. streams: copies of standard output and error, by number."""

    folder: int | None
    umask: int
    handlers: dict[signal.Signals, Any]
    streams: dict[int, tuple[int, tuple[int, int] | None]]
    texts: tuple[Any, Any] = field(default_factory=lambda: (sys.stdout, sys.stderr))
    names: dict[str, str | None] = field(default_factory=lambda: {name: os.environ.get(name) for name in _OF_THE_RUN})
    recursion: int = field(default_factory=sys.getrecursionlimit)


@contextmanager
def contained(what: str, kind: str = "reward") -> Iterator[None]:
    """Wraps one call. what: the reward's name for messages. Raises RewardLeft for SystemExit and the like.

    kind: "reward", or a different kind of user code.
    """
    before, own = _looked(), os.getpid()
    try:
        yield
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as leaving:
        _end_fork(own, f"{kind} {what}")
        raise RewardLeft(f"{kind} {what} raised {type(leaving).__name__}: {leaving}") from leaving
    except Exception as problem:
        _end_fork(own, f"{kind} {what}")
        problem.add_note(f"{RAISED_IN}{kind} {what}")
        raise
    finally:
        _end_fork(own, f"{kind} {what}")
        _put_right(before, f"{kind} {what}")


def end_if_fork() -> None:
    """Ends this process if it is a fork of the training process."""
    _end_fork(_process, "a reward or what it started")


def trains_here() -> None:
    """Registers this process as the training process; its forks are not."""
    global _process
    _process = os.getpid()


def _end_fork(own: int, what: str) -> None:
    if os.getpid() != own:
        with suppress(OSError):
            os.write(2, f"{what}: a process that it forked returned, and was ended\n".encode())
        os._exit(1)


def _looked() -> _Before:
    folder = None
    with suppress(OSError):
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    streams = {}
    for number in (1, 2):
        with suppress(OSError):
            streams[number] = (os.dup(number), _file(number))
    umask = os.umask(0o077)
    os.umask(umask)
    return _Before(folder, umask, {each: signal.getsignal(each) for each in _WATCHED}, streams)


def _put_right(before: _Before, what: str) -> None:
    for number, (copy, file) in before.streams.items():
        if _file(number) != file:
            os.dup2(copy, number)
            _say(what, "closed or replaced the output of its process")
        os.close(copy)
    if (sys.stdout, sys.stderr) != before.texts:
        sys.stdout, sys.stderr = before.texts
        _say(what, "replaced sys.stdout or sys.stderr")
    if before.folder is not None:
        if not _is_here(before.folder):
            os.fchdir(before.folder)
            _say(what, "changed the working folder")
        os.close(before.folder)
    if (umask := os.umask(before.umask)) != before.umask:
        _say(what, f"set the mask of new files to {umask:03o}")
    with suppress(ValueError):  # only the main thread can set handlers
        changed = [each for each, handler in before.handlers.items() if signal.getsignal(each) is not handler]
        for each in changed:
            signal.signal(each, before.handlers[each])
        if changed:
            _say(what, f"took over {', '.join(each.name for each in changed)}")
    for name, value in before.names.items():
        if os.environ.get(name) != value:
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
            _say(what, f"set {name}")
    if sys.getrecursionlimit() < before.recursion:
        sys.setrecursionlimit(before.recursion)
        _say(what, "lowered the recursion limit")


def _say(what: str, changed: str) -> None:
    """Prints a change that user code made to its process, once for each reward or tool and kind of change."""
    if (what, changed) not in _said:
        _said.add((what, changed))
        print(f"{what} {changed}; that was undone", flush=True)


def _file(number: int) -> tuple[int, int] | None:  # type: ignore[return]
    with suppress(OSError):
        found = os.fstat(number)
        return found.st_dev, found.st_ino


def _is_here(folder: int) -> bool:
    try:
        there, here = os.fstat(folder), os.stat(".")
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
