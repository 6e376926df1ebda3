"""Commands in surroundings that no user wants, each in a fork of this process with streams as a start finds them."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

WALL_S = 120
CLOSED_PIPE = "a pipe that nobody reads"
_NEW_USERS = 0x10000000
_HIGH = 100  # no standard stream has such a number


@dataclass(frozen=True, slots=True)
class Around:
    """What a command finds. streams: the file behind a standard stream by its number, None for a closed one.

    environment: over that of a plain user, None unsets. before: done in the child, in its folder.
    """

    streams: dict[int, str | None] = field(default_factory=dict)
    environment: dict[str, str | None] = field(default_factory=dict)
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. code: 128 + n for signal n. out, err: what its streams got, where a file was behind them."""

    code: int
    out: bytes
    err: bytes


def ended(words: list[str], folder: Path, around: Around, main: Callable[[list[str]], None]) -> Ended:
    """Runs a command with these words in a folder, in these surroundings."""
    out, err = folder.parent / "out", folder.parent / "err"
    for path in (out, err):
        path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _in_child(words, folder, around, {0: "/dev/null", 1: str(out), 2: str(err)}, main)
    until = time.monotonic() + WALL_S
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(found[1])
    return Ended(
        code if code >= 0 else 128 - code, *(path.read_bytes() if path.exists() else b"" for path in (out, err))
    )


def _in_child(
    words: list[str], folder: Path, around: Around, files: dict[int, str], main: Callable[[list[str]], None]
) -> None:
    """Never returns: nothing of the test runs on in the fork."""
    code = 99
    try:
        os.environ.clear()
        user = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent / "home"), "HF_HUB_OFFLINE": "1"}
        os.environ.update({name: value for name, value in {**user, **around.environment}.items() if value is not None})
        os.chdir(folder)
        _set_streams({**files, **around.streams}, around.environment.get("PYTHONIOENCODING") or "utf-8")
        around.before()
        main(words)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = 120  # as the interpreter does
    os._exit(code)


def _set_streams(files: dict[int, str | None], encoding: str) -> None:
    opened = {number: None if path is None else _opened(path, number) for number, path in files.items()}
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        source = opened[number]
        if source is None:
            with contextlib.suppress(OSError):
                os.close(number)
            setattr(sys, name, None)
        else:
            os.dup2(source, number)
            os.close(source)
            errors = "backslashreplace" if number == 2 else "strict"
            stream = open(number, "w" if number else "r", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _opened(path: str, number: int) -> int:
    if path == CLOSED_PIPE:
        reading, low = os.pipe()
        os.close(reading)
    else:
        low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY, 0o644)
    high = fcntl.fcntl(low, fcntl.F_DUPFD, _HIGH)
    os.close(low)
    return high


def limited(which: int, value: int) -> Callable[[], None]:
    """Sets a limit of the process."""
    return lambda: resource.setrlimit(which, (value, value))


def nameless() -> None:
    """Becomes a user without an entry in passwd, even as root. Raises OSError where that is not allowed."""
    number, own = 64_321, os.getuid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USERS) != 0:
        raise OSError(ctypes.get_errno(), "no namespace of users")
    Path("/proc/self/uid_map").write_text(f"{number} {own} 1")
    os.setresuid(number, number, number)


def can_be_nameless() -> bool:
    """Whether this system lets a process be one without a name."""
    child = os.fork()
    if child == 0:
        try:
            nameless()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def in_removed_folder() -> None:
    """Goes to a folder that is not there any more."""
    os.mkdir("removed")
    os.chdir("removed")
    os.rmdir("../removed")


def in_folder(name: bytes) -> Callable[[], None]:
    """Goes to a folder of this name, in which the files of the first one are."""

    def go() -> None:
        os.makedirs(name, exist_ok=True)
        for entry in os.listdir(b"."):
            if os.path.isfile(entry) and not os.path.exists(os.path.join(name, entry)):
                os.link(entry, os.path.join(name, entry))
        os.chdir(name)

    return go
