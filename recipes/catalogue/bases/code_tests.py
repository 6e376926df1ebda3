"""The share of its tests that a completion's Python code passes, run in a process of its own with limits.

Code that a model writes runs with your rights: it has no more than a second of computing for each test, 1 GiB of memory
and an empty folder, and is ended after half a minute. What it tries by mistake is refused: to change or remove a file
elsewhere, to start a process, to use the network. But Python has ways around that, and it reads your files, so train
with it in a container, or as a user who owns nothing. A model may learn to pass tests otherwise than by solving the
task; look at its completions.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

FENCED = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\r?\n(.*?)```", re.S | re.I)
SECONDS_A_TEST = 1
WALL_SECONDS = 30
MEMORY = 1 << 30
AT_ONCE = 4
# The beginnings of the names of Python's audit events.
REFUSED = [
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"),
    *("os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn", "os.system", "subprocess.", "pty."),
    *("shutil.", "socket.", "ctypes."),
]

# Reads the number of the pipe for its answer, the limits, the code and the tests, and answers a letter for each test.
CHILD = """
import json, os, resource, sys
asked = json.load(sys.stdin)
for name, most in asked["limits"].items():
    try:
        resource.setrlimit(getattr(resource, name), (most, most))
    except (OSError, ValueError):
        pass
answer, space = os.fdopen(asked["pipe"], "w"), {"__name__": "completion"}
changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
refused, own = tuple(asked["refused"]), os.path.join(os.path.realpath("."), "")
def refuse(event, values):
    # RLIMIT_NPROC does not bind root, and RLIMIT_FSIZE lets a file be emptied.
    changes = event == "open" and (values[2] or 0) & changing
    if event.startswith(refused) or (changes and not os.path.realpath(os.fsdecode(values[0])).startswith(own)):
        raise PermissionError(event)
sys.addaudithook(refuse)
try:
    exec(asked["code"], space)
except BaseException:
    sys.exit()
for test in asked["tests"]:
    try:
        exec(test, dict(space))
    except BaseException:
        answer.write("0")
    else:
        answer.write("1")
    answer.flush()
"""


def code_tests(
    completions: list, *, test_list: list[list[str]], test_setup_code: list[str], **kwargs: object
) -> list[float | None]:
    """Gives the share of `test_list` that passes; a row without tests gets None, that is, no reward.

    The code of a completion is its first fenced block, or all of it.
    """
    asked = zip(completions, test_list, test_setup_code, strict=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [pool.submit(_share, _code(given), setup or "", tests) for given, tests, setup in asked]
        return [one.result() for one in found]


def _code(completion: object) -> str:
    text = completion if isinstance(completion, str) else "".join(one.get("content") or "" for one in completion)
    fenced = FENCED.search(text)
    return fenced.group(1) if fenced else text


def _share(code: str, setup: str, tests: list[str]) -> float | None:
    if not tests:
        return None
    reading, writing = os.pipe()
    limits = {
        "RLIMIT_CPU": 1 + SECONDS_A_TEST * len(tests),
        "RLIMIT_AS": MEMORY,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NPROC": 0,
        "RLIMIT_CORE": 0,
    }
    asked = json.dumps(
        {"pipe": writing, "limits": limits, "refused": REFUSED, "code": f"{setup}\n{code}", "tests": tests}
    )
    with tempfile.TemporaryDirectory() as folder, os.fdopen(reading, "rb"):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(asked.encode("utf-8", "replace"), timeout=WALL_SECONDS)
        finally:
            _end(child)
        return _answer(reading, len(tests)).count(b"1") / len(tests)


def _answer(pipe: int, most: int) -> bytes:
    """What was answered; who still holds the other end is not waited for."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, most)
    except BlockingIOError:
        return b""


def _end(child: subprocess.Popen) -> None:
    """Ends what the child started with it, and waits for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
