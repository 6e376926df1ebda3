"""The tool of the Qwen3 Python recipe: runs code that the model writes, within limits, and tells it what was printed.

The code runs in a process of its own with eight seconds by the clock, two of computing, 512 MiB of memory, an empty
folder that is removed behind it, and no variables of the environment. What it tries by mistake is refused: to start a
process, to use the network, to change or remove a file elsewhere. Where Linux lets it, the code is also in namespaces
of its own, without any network, and everything that it started ends with it.

That is a fence, no wall. The code runs with your rights and can read your files; Python has ways around what it refuses
itself; where namespaces are not allowed, as in many containers, that refusal is all that keeps it from the network and
from lasting processes. So train in a container that has no secrets in it, or as a user who owns nothing.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

WALL_SECONDS = 8
CPU_SECONDS = 2
MEMORY = 512 << 20
LONGEST = 2000
# The beginnings of the names of Python's audit events.
REFUSED = [
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"),
    *("os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn", "os.system", "subprocess.", "pty."),
    *("shutil.", "socket.", "ctypes."),
]

# Reads the limits and the code. In namespaces of its own it is the first process, with which all others end.
CHILD = """
import json, os, resource, signal, sys
asked = json.load(sys.stdin)
def apart():
    import ctypes
    system = ctypes.CDLL(None, use_errno=True)
    user, network, processes = 0x10000000, 0x40000000, 0x20000000
    if os.getuid() == 0:
        os.setresuid(65534, -1, -1)  # the limit of processes binds everybody but root
    if system.unshare(user | network | processes) == 0:
        if started := os.fork():
            os._exit(os.waitstatus_to_exitcode(os.waitpid(started, 0)[1]) & 255)
        system.prctl(1, signal.SIGKILL)
try:
    apart()
except (AttributeError, ImportError, OSError):
    pass
for name, most in asked["limits"].items():
    try:
        resource.setrlimit(getattr(resource, name), (most, most))
    except (OSError, ValueError):
        pass
changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
refused, own = tuple(asked["refused"]), os.path.join(os.path.realpath("."), "")
def refuse(event, values):
    # RLIMIT_NPROC does not bind root, and RLIMIT_FSIZE lets a file be emptied.
    changes = event == "open" and (values[2] or 0) & changing
    if event.startswith(refused) or (changes and not os.path.realpath(os.fsdecode(values[0])).startswith(own)):
        raise PermissionError(f"{event} is not allowed here")
sys.addaudithook(refuse)
try:
    exec(compile(asked["code"], "code", "exec"), {"__name__": "__main__"})
except SystemExit:
    pass
except BaseException as problem:
    line, at = None, problem.__traceback__
    while at is not None:
        line, at = (at.tb_lineno if at.tb_frame.f_code.co_filename == "code" else line), at.tb_next
    print(": ".join(filter(None, (type(problem).__name__, str(problem)))) + (f" (line {line})" if line else ""))
"""


def run_python(code: str) -> str:
    """Runs Python code and returns what it printed.

    Args:
        code: A whole program that prints its result, such as print(sum(range(10))).

    Returns:
        What was printed, or the error.
    """
    limits = {
        "RLIMIT_CPU": CPU_SECONDS,
        "RLIMIT_AS": MEMORY,
        "RLIMIT_FSIZE": 1 << 20,
        "RLIMIT_NPROC": 0,
        "RLIMIT_CORE": 0,
    }
    asked = json.dumps({"limits": limits, "refused": REFUSED, "code": code}).encode()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as given:
        given.write(asked)
        given.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-u", "-c", CHILD],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        try:
            printed, is_over = _printed(child, time.monotonic() + WALL_SECONDS)
        finally:
            _end(child)
    text = printed[:LONGEST].decode("utf-8", "replace").strip()
    if len(printed) > LONGEST:
        text += f"\n[cut after {LONGEST} characters]"
    if not is_over:
        return f"{text}\n[ended after {WALL_SECONDS} seconds]".strip()
    if child.returncode:
        return f"{text}\n[ended by its limits: {CPU_SECONDS} seconds of computing, {MEMORY >> 20} MiB]".strip()
    return text or "[nothing was printed]"


def _printed(child: "subprocess.Popen[bytes]", until: float) -> tuple[bytes, bool]:
    """The beginning of what a process prints, and whether it ended in time. The rest is read and forgotten."""
    kept = bytearray()
    assert child.stdout is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not waiting.select(left):
                break
            more = os.read(child.stdout.fileno(), 1 << 16)
            if not more:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, until - time.monotonic()))
                return bytes(kept), child.returncode is not None
            kept += more[: LONGEST + 1 - len(kept)]
    return bytes(kept), False


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Ends what the child started with it, and waits for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
