"""Stands between grpo-run and the training so that no process is left behind, whoever is killed.

A program of its own, with the standard library alone; COMMAND is what starts it, followed by

    FOLDER PARENT_PID [ARGUMENT ...]

It starts FOLDER/launch.sh with the arguments and ends as that does, with 128 + n for signal n. A first signal
asks the trainers to stop, a second one kills everything, and so does the death of grpo-run.

torchrun, which accelerate starts, puts each trainer into a session of its own and gives it 30 seconds at
a SIGTERM, then kills it. So no group holds them all, and the trainers are told directly: the launcher
above them then waits for as long as they save.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

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
from grpo_recipes.contract.host.surroundings import remove_unused

# Without site-packages and without the folder it is started in, where a file could have the name of a module.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import grpo_recipes; del sys.path[0]; "
    "from grpo_recipes.contract.host.supervisor import main; main()"
)
COMMAND = (sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parents[3]))
_POLL_S = 1.0
_LEAVE_S = 1.0
_SERVING = "worker/serve.py"


def started(
    folder: str, output: int, environment: dict[str, str], *arguments: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """Starts this program on a folder, for the process that calls this.

    output: what it and all below it print to. stdin: of the launcher.
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
    """Tells the ranks to save and stop, or the launcher while there are none yet.

    Beside a vLLM server one process watches ranks and server: it is told, and passes it on.
    """
    below = descendants(os.getpid())
    serving = [process.pid for process in below if any(word.endswith(_SERVING) for word in process.argv)]
    send(serving or ranks(below) or [launcher.pid], signal.SIGTERM)


def _start(folder: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", os.path.join(folder, "launch.sh"), *arguments],
        cwd="/",  # where no file is taken for one of bash's; launch.sh finds its folder by its own name
        preexec_fn=be_launcher,
    )


def _watch(launcher: subprocess.Popen[bytes], wakeup: int, parent: int) -> None:
    """Returns when the launcher has ended."""
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
    """Trains a folder to its end and returns the exit code of launch.sh, 128 + n for signal n."""
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
    """Reads the command line: where the package is, then what stands above."""
    _, folder, parent, *arguments = sys.argv[1:]
    sys.exit(supervise(folder, int(parent), arguments))
