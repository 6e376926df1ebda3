"""Runs the training below grpo-run so that no process is left behind, whichever one is killed.

A separate program that needs only the standard library; COMMAND starts it, followed by

FOLDER PARENT_PID [ARGUMENT ...]

It starts FOLDER/launch.sh with the arguments and exits with its code, or 128 + n for signal n. The first signal asks
the trainers to stop; a second one, or the death of grpo-run, kills everything.

torchrun, which accelerate starts, puts each trainer into a separate session and kills it 30 seconds after a SIGTERM. So
no group contains them all, and the trainers are signalled directly: the launcher above them then waits until they have
saved.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from grpo_recipes.contract.host.child_environment import remove_unused
from grpo_recipes.contract.host.processes import (
    ASKING,
    adopt_orphans,
    be_launcher,
    descendants,
    die_with_parent,
    kill_all_below,
    ranks,
    reap,
    send,
)

# Without site-packages and the current folder, where a file could shadow a module.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import grpo_recipes; del sys.path[0]; "
    "from grpo_recipes.contract.host.supervisor import main; main()"
)
COMMAND = (sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parents[3]))
_POLL_S = 1.0
_LEAVE_S = 1.0
_SERVING = "worker/serve.py"


def start_supervisor(
    folder: str, output: int, environment: dict[str, str], *arguments: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """Starts this program on a folder, as a child of the calling process.

    output: receives the output of it and everything below it. stdin: of the launcher.
    """
    return subprocess.Popen(
        [*COMMAND, folder, str(os.getpid()), *arguments],
        env={**environment, "PYTHON": sys.executable},
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _ask_trainers(launcher: subprocess.Popen[bytes]) -> None:
    """Asks the ranks to save and stop, or the launcher if there are none yet.

    With a vLLM server, one process watches ranks and server: it gets the signal and passes it on.
    """
    below = descendants(os.getpid())
    serving = [process.pid for process in below if any(word.endswith(_SERVING) for word in process.argv)]
    send(serving or ranks(below) or [launcher.pid], signal.SIGTERM)


def _start(folder: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", os.path.join(folder, "launch.sh"), *arguments],
        cwd="/",  # so no file in the folder is sourced by bash; launch.sh finds its folder by its own path
        preexec_fn=be_launcher,
    )


def _watch(launcher: subprocess.Popen[bytes], wakeup: int, parent: int) -> None:
    """Waits for the launcher to end."""
    is_asked = False
    while launcher.poll() is None:
        select.select([wakeup], [], [], _POLL_S)
        signals: list[int] = []
        with contextlib.suppress(BlockingIOError):
            signals += os.read(wakeup, 64)
        asked = sum(number in ASKING for number in signals)
        if os.getppid() != parent or asked > 1 or (asked and is_asked):
            kill_all_below([launcher])
        elif asked:
            is_asked = True
            _ask_trainers(launcher)


def supervise(folder: str, parent: int, arguments: list[str]) -> int:
    """Trains a folder to its end; returns the exit code of launch.sh, or 128 + n for signal n."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*ASKING, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    launcher = _start(folder, arguments)
    try:
        _watch(launcher, reading, parent)
        leaving = time.monotonic() + _LEAVE_S
        while descendants(os.getpid()) and time.monotonic() < leaving:
            time.sleep(0.05)
            reap(launcher)
    finally:
        kill_all_below([launcher])
    remove_unused(Path(folder))
    code = launcher.wait()
    return code if code >= 0 else 128 - code


def main() -> None:
    """Reads the command line: the path of the package, then the arguments above."""
    _, folder, parent, *arguments = sys.argv[1:]
    sys.exit(supervise(folder, int(parent), arguments))
