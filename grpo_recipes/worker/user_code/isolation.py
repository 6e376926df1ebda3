"""Wraps calls of user code: undoes changes to the process that would affect the run, and prints each once.

It undoes changes that would silently end or change a run: to the working folder, signal handlers, standard streams, the
umask, limits, functions of Python's own modules (the guards of public code rewards set os.rename to None), the
variables that identify the process within the run, torch's settings and seed, and the trainer's state. A
fork that returns would train a second time in the same folder, so it is ended. SystemExit in a reward becomes an error
with the reward's name. Changes that a reward may need, to the locale and to other variables, are only printed.
"""

import builtins
import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.worker.user_code.process_settings import ProcessSetting, settings

RAISED_IN = "raised in "
_OF_THE_RUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_WATCHED = (*ASKING, signal.SIGCHLD)
_LIMITS = ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
_MODULES = (builtins, os, shutil, subprocess)
_FIXED = frozenset({str, int, float, bool, type(None), bytes})
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
    variables: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    recursion: int = field(default_factory=sys.getrecursionlimit)
    limits: dict[str, tuple[int, int]] = field(default_factory=lambda: {name: _limit(name) for name in _LIMITS})
    members: list[dict[str, Any]] = field(default_factory=lambda: [dict(vars(module)) for module in _MODULES])
    settings: list[tuple[ProcessSetting, Any]] = field(
        default_factory=lambda: [(each, each.read()) for each in settings()]
    )


def own_copy(value: Any) -> Any:
    """Returns a value for one call: lists, dicts, tuples, sets and images are copied, other objects are shared."""
    if type(value) in (list, tuple, set):
        return type(value)(value if _FIXED.issuperset(map(type, value)) else [own_copy(each) for each in value])
    if type(value) is dict:
        return {name: each if type(each) in _FIXED else own_copy(each) for name, each in value.items()}
    return value.copy() if type(value).__module__.startswith("PIL.") else value


@contextmanager
def contain(what: str, kind: str = "reward", state: Any = None) -> Iterator[None]:
    """Wraps one call. what: the reward's name for messages. Raises RewardLeft for SystemExit and the like.

    kind: "reward", or a different kind of user code. state: the trainer's, if the call gets it.
    """
    before, own = _look(state), os.getpid()
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


def _look(state: Any) -> _Before:
    folder = None
    with suppress(OSError):
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    streams = {}
    for number in (1, 2):
        with suppress(OSError):
            streams[number] = (os.dup(number), _file(number))
    umask = os.umask(0o077)
    os.umask(umask)
    before = _Before(folder, umask, {each: signal.getsignal(each) for each in _WATCHED}, streams)
    if dataclasses.is_dataclass(state):
        before.settings.extend((each, each.read()) for each in _of_state(state))
    return before


def _of_state(state: Any) -> Iterator[ProcessSetting]:
    """Yields the fields of the trainer's state, which every reward gets; a list is compared with a copy."""

    def read(name: str) -> Any:
        value = getattr(state, name)
        return list(value) if isinstance(value, list) else value

    for each in dataclasses.fields(state):
        yield ProcessSetting(
            f"changed trainer_state.{each.name}", partial(read, each.name), partial(setattr, state, each.name)
        )


def _put_right(before: _Before, what: str) -> None:
    _put_right_members(before, what)
    _put_right_limits(before, what)
    is_closed = False
    for number, (copy, file) in before.streams.items():
        if _file(number) != file:
            os.dup2(copy, number)
            is_closed = True
        os.close(copy)
    is_replaced = (sys.stdout, sys.stderr) != before.texts
    sys.stdout, sys.stderr = before.texts
    for name in ("stdout", "stderr"):
        if _is_closed(getattr(sys, name)):
            setattr(sys, name, None)
            make_steady()
            is_closed = True
    if is_closed:
        _say(what, "closed or replaced the output of its process")
    if is_replaced:
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
    _put_right_variables(before, what)
    if sys.getrecursionlimit() < before.recursion:
        sys.setrecursionlimit(before.recursion)
        _say(what, "lowered the recursion limit")
    for setting, value in before.settings:
        if (now := setting.read()) is not value and now != value:
            if setting.write is not None:
                setting.write(value)
            _say(what, setting.change, is_undone=setting.write is not None)


def _put_right_members(before: _Before, what: str) -> None:
    replaced = []
    for module, members in zip(_MODULES, before.members, strict=True):
        now = vars(module)
        names = [name for name, member in members.items() if now.get(name) is not member]
        now.update({name: members[name] for name in names})
        replaced += [f"{module.__name__}.{name}" for name in names]
    if replaced:
        _say(what, f"replaced {join_items(replaced)}")


def _limit(name: str) -> tuple[int, int]:
    return resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))


def _put_right_limits(before: _Before, what: str) -> None:
    for name, limits in before.limits.items():
        now = _limit(name)
        if not any(map(_is_lower, now, limits)):
            continue
        for hard in (limits[1], now[1]):  # only root may raise a hard limit again
            with suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limits[0], hard))
                break
        _say(what, f"lowered the limit RLIMIT_{name}", is_undone=_limit(name)[0] == limits[0])


def _is_lower(limit: int, other: int) -> bool:
    return limit != resource.RLIM_INFINITY and (other == resource.RLIM_INFINITY or limit < other)


def _put_right_variables(before: _Before, what: str) -> None:
    """Restores the variables of the run, and names others that were changed or removed, such as PATH."""
    for name in _OF_THE_RUN:
        if (value := before.variables.get(name)) != os.environ.get(name):
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
            _say(what, f"set {name}")
    for name, value in before.variables.items():
        if os.environ.get(name) != value:
            _say(what, f"changed or removed the variable {name}", is_undone=False)


def _say(what: str, changed: str, *, is_undone: bool = True) -> None:
    """Prints a change that user code made to its process, once for each reward or tool and kind of change."""
    if (what, changed) not in _said:
        _said.add((what, changed))
        print(f"{what} {changed}; that was {'undone' if is_undone else 'not undone'}", flush=True)


def _is_closed(stream: Any) -> bool:
    """Whether a stream of Python is closed, or detached from its file."""
    try:
        return stream is not None and bool(stream.closed)
    except ValueError:
        return True


def _file(number: int) -> tuple[int, int] | None:  # type: ignore[return]
    with suppress(OSError):
        status = os.fstat(number)
        return status.st_dev, status.st_ino


def _is_here(folder: int) -> bool:
    try:
        there, here = os.fstat(folder), os.stat(".")
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
