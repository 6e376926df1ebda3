"""Runs a Python program in a process that the kernel confines, for code that a model writes.

    ended = run("print(6 * 7)", Limits())

The first of MECHANISMS that this machine has confines it; nothing relies on Python:

- landlock: Landlock (Linux 5.13 and newer) for files, a seccomp filter for the network and for other processes, limits
  for memory, CPU time, processes and file sizes. It needs no package and no rights.
- bubblewrap: namespaces that `bwrap` makes, with the same filter and limits, for a kernel without Landlock.

Without either, NoSandbox is raised and nothing runs, unless the recipe sets `launch.sandbox: none`: then only the
limits apply. If the caller is root, the program runs as an otherwise unused user.

The program can read Python, its packages and /usr, write to a private empty folder, and start a few processes, which
end with it. It sees no environment variable of yours, no other process, and no network.
"""

import contextlib
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from grpo_recipes.contract.plan_sections import SANDBOX_VARIABLE
from grpo_recipes.contract.sandbox.bounded_command import ProgramEnd, run_bounded
from grpo_recipes.contract.sandbox.confine import MARK
from grpo_recipes.contract.sandbox.system_calls import ARCHITECTURES, seccomp_filter

Mechanism = Literal["landlock", "bubblewrap", "none"]
MECHANISMS: tuple[Mechanism, ...] = ("landlock", "bubblewrap")
SCOPED_SIGNALS = 6
"""The Landlock ABI that confines signals to the sandbox, Linux 6.12."""
_LANDLOCK_ABI = 444, 1
_OPEN_FILES = 64
_BEFORE_IT = 1 << 16
"""Bytes that Python may print before the program runs."""
_THREADS = 64
"""For a program without processes; threads share its memory and CPU time."""
_OF_THE_USER = 128
"""Threads that an ordinary user's other programs may start in the meantime, since the kernel counts them too."""
_OF_BUBBLEWRAP = 2
"""Processes of a user namespace before the program starts any; counted per namespace since Linux 5.14."""
_REMOVE = ("/bin/sh", "-c", 'rm -rf "$0" || { chmod -R u+rwx "$0"; rm -rf "$0"; }')
_LEAST_REMOVAL_S = 0.5
"""Also after a program that used all of its time."""
_TRIAL = "[ok]"
_PROGRAM = files(__package__).joinpath("confine.py").read_text(encoding="utf-8")
_READABLE = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/nix/store",
    "/gnu/store",
)
_OF_PYTHON = ("bin", "lib", "lib64", "pyvenv.cfg")
_DEVICES_READ, _DEVICES_WRITTEN = ("/dev/urandom", "/dev/zero"), ("/dev/null",)
_OTHER_USERS = (1 << 30, 1 << 30), (61_184, 4_000)
"""First number and count: of users that no system has, and, in containers with 65,536 ids, of transient ones."""


class NoSandbox(Exception):
    """Nothing on this machine can confine a program; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a program. wall_s: seconds by the clock; cpu_s: CPU seconds of each process.

    memory_bytes: address space of each process. file_bytes: of each file. processes: at once, besides the first,
    including threads, which the kernel counts alike; 0: only threads. printed_bytes: kept output.
    """

    wall_s: float = 8
    cpu_s: int = 2
    memory_bytes: int = 512 << 20
    file_bytes: int = 1 << 20
    processes: int = 16
    printed_bytes: int = 2000


def run(
    program: str,
    limits: Limits,
    given: object = None,
    *,
    mechanism: Mechanism | None = None,
    landlock_abi: int | None = None,
) -> ProgramEnd:
    """Runs Python source text, with `given`, any JSON value, as a global name.

    mechanism, landlock_abi: override this machine's own, for trials. Raises NoSandbox if nothing can confine it.
    """
    mechanism = mechanism or choose_mechanism()
    with _own_folder(time.monotonic() + limits.wall_s) as folder, tempfile.TemporaryFile() as request:
        user = None if mechanism == "none" else _other_user(folder)
        asked = _request(mechanism, limits, user, landlock_abi)
        request.write(json.dumps({**asked, "program": program, "given": given}).encode())
        request.seek(0)
        python = [sys.executable, "-I", "-u", "-c", _PROGRAM]
        words = [*_bubblewrap(folder, user), *python] if mechanism == "bubblewrap" else python
        ended = run_bounded(words, folder, request, limits.wall_s, limits.printed_bytes + _BEFORE_IT)
    if MARK.encode() in ended.printed:
        return _behind_the_mark(ended, limits.printed_bytes, mechanism)
    if not ended.in_time:
        return ProgramEnd(b"", is_cut=False, in_time=False, code=ended.code)
    lines = ended.printed.decode("utf-8", "replace").strip().splitlines()
    raise NoSandbox(f"{mechanism} does not confine a program: {lines[-1] if lines else f'it ended with {ended.code}'}")


def require() -> None:
    """Raises NoSandbox if nothing can confine a program here, so that a tool or reward fails when it is loaded."""
    choose_mechanism()


def choose_mechanism() -> Mechanism:
    """The mechanism to use here, as `launch.sandbox` sets it. Raises NoSandbox."""
    if os.environ.get(SANDBOX_VARIABLE) == "none":
        return "none"
    mechanism = available()
    if mechanism is None:
        raise NoSandbox(
            "no sandbox for code that the model writes: this machine has neither Landlock nor a working bubblewrap; "
            "install bubblewrap, use Linux 5.13 or newer, or set launch.sandbox: none"
        )
    return mechanism


@cache
def available() -> Mechanism | None:
    """The first mechanism in which a trial program runs on this machine, None if there is none."""
    return next((each for each in MECHANISMS if _holds(each)), None)


@cache
def abi() -> int:
    """The kernel's Landlock ABI version, 0 without Landlock."""
    import ctypes

    if platform.system() != "Linux" or platform.machine() not in ARCHITECTURES:
        return 0
    number, asks_version = _LANDLOCK_ABI
    return max(0, int(ctypes.CDLL(None).syscall(number, None, ctypes.c_size_t(0), asks_version)))


def _holds(mechanism: Mechanism) -> bool:
    if platform.machine() not in ARCHITECTURES or not (abi() if mechanism == "landlock" else shutil.which("bwrap")):
        return False
    try:
        ended = run(f"print({_TRIAL!r})", Limits(wall_s=30, cpu_s=20), mechanism=mechanism)
    except (NoSandbox, OSError):
        return False
    return ended.printed.decode().strip() == _TRIAL


def _request(mechanism: Mechanism, limits: Limits, user: int | None, landlock_abi: int | None) -> dict[str, object]:
    """The request to confine.py, without the program."""
    landlock = (landlock_abi or abi()) if mechanism == "landlock" else 0
    # RLIMIT_NPROC also counts threads, over all processes of a user; it does not apply to root.
    is_bound = user is not None or os.geteuid() != 0 or mechanism == "none"
    processes = limits.processes if is_bound else 0
    if user is not None:
        beside = 1
    elif mechanism == "bubblewrap":
        beside = _OF_BUBBLEWRAP
    else:
        beside = 1 + _threads_of(os.getuid()) + _OF_THE_USER
    held = (
        ""
        if mechanism == "none"
        else seccomp_filter(
            platform.machine(),
            starts_processes=processes > 0,
            sends_signals=landlock >= SCOPED_SIGNALS or mechanism == "bubblewrap",
        ).hex()
    )
    return {
        "limits": {
            "RLIMIT_CPU": limits.cpu_s,
            "RLIMIT_AS": limits.memory_bytes,
            "RLIMIT_FSIZE": limits.file_bytes,
            "RLIMIT_NPROC": beside + (processes or _THREADS),
            "RLIMIT_NOFILE": _OPEN_FILES,
            "RLIMIT_CORE": 0,
        },
        "user": user,
        "landlock": landlock,
        "readable": [*_readable(), *_DEVICES_READ],
        "writable": _DEVICES_WRITTEN,
        "filter": held,
    }


def _readable() -> list[str]:
    """The system's programs and libraries, this Python and its packages; no more of a prefix, which may be a home."""
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    of_python = [os.path.join(prefix, part) for prefix in prefixes for part in _OF_PYTHON]
    return [path for path in dict.fromkeys((*_READABLE, *of_python)) if os.path.exists(path)]


def _bubblewrap(folder: str, user: int | None) -> list[str]:
    """The bwrap command prefix that sets up namespaces and the visible file system."""
    words = [
        shutil.which("bwrap") or "bwrap",
        "--die-with-parent",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
    ]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    if user is None:
        words += ["--unshare-user"]
    else:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_DAC_READ_SEARCH"):
            words += ["--cap-add", capability]
    for path in _readable():
        kind = ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
        words += kind
    for path in (*_DEVICES_READ, *_DEVICES_WRITTEN):
        words += ["--dev-bind", path, path]
    return [*words, "--bind", folder, folder, "--remount-ro", "/", "--chdir", folder, "--"]


def _other_user(folder: str) -> int | None:
    """An unused user id that owns the folder; None if this process is not root or cannot change users."""
    if os.geteuid() != 0:
        return None
    for first, many in _OTHER_USERS:
        user = first + secrets.randbelow(many)
        with contextlib.suppress(OSError):
            os.chown(folder, user, user)
            return user
    return None


def _threads_of(user: int) -> int:
    """The number of a user's threads, as RLIMIT_NPROC counts them."""
    threads = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == user:
                threads += len(os.listdir(os.path.join(entry.path, "task")))
    return threads


@contextlib.contextmanager
def _own_folder(until: float) -> Iterator[str]:
    """A private empty folder, which is removed afterwards, whatever its content: what is left `until` then, later."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="grpo-run-"))
    try:
        yield folder
    finally:
        try:
            os.rmdir(folder)
        except OSError:  # it has files, perhaps in thousands of folders, or in ones that cannot be entered
            removing = subprocess.Popen([*_REMOVE, folder], stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                removing.wait(max(_LEAST_REMOVAL_S, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                threading.Thread(target=removing.wait, daemon=True).start()


def _behind_the_mark(ended: ProgramEnd, most: int, mechanism: Mechanism) -> ProgramEnd:
    """The program's own output and how it ended: bwrap exits with 128 + N for signal N."""
    signalled = mechanism == "bubblewrap" and 128 < ended.code < 128 + signal.NSIG
    code = 128 - ended.code if signalled else ended.code
    own = ended.printed.partition(MARK.encode())[2]
    return ProgramEnd(own[:most], is_cut=len(own) > most, in_time=ended.in_time, code=code)
