"""A command that is given a time and a bound for what it prints, and leaves no process behind."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended. printed: on both outputs, as much as was kept. is_cut: it printed more.

    in_time: False where it was ended after wall_s. code: as of subprocess, negative for a signal.
    """

    printed: bytes
    is_cut: bool
    in_time: bool
    code: int


def followed(words: list[str], folder: str, given: IO[bytes], wall_s: float, most: int) -> ProgramEnd:
    """Starts a command in a folder and a session of its own, and ends all that it started.

    given: its standard input. most: bytes of its output that are kept.
    """
    child = subprocess.Popen(
        words,
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={},
        start_new_session=True,
    )
    assert child.stdout is not None
    try:
        printed, in_time = _printed(child, child.stdout, time.monotonic() + wall_s, most)
    finally:
        # Nothing has waited for it yet, so the number of its group is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    return ProgramEnd(printed, is_cut=len(printed) == most, in_time=in_time, code=child.returncode)


def _printed(child: "subprocess.Popen[bytes]", output: IO[bytes], until: float, most: int) -> tuple[bytes, bool]:
    """The beginning of what a process prints, and whether it ended in time. The rest is read and forgotten."""
    printed = bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(output, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0 and waiting.select(left):
            more = os.read(output.fileno(), 1 << 16)
            if not more:
                return bytes(printed), _has_ended(child.pid, until)
            printed += more[: most - len(printed)]
    return bytes(printed), False


def _has_ended(process: int, until: float) -> bool:
    """Whether a process that has closed its output ends in time; it is left to be waited for."""
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True
