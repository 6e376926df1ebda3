"""Runs a command with a time limit and an output limit, and leaves no process behind."""

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
    """How a program ended. printed: stdout and stderr, as far as kept. is_cut: it printed more.

    in_time: False if it was ended after wall_s. code: as in subprocess, negative for a signal.
    """

    printed: bytes
    is_cut: bool
    in_time: bool
    code: int


def run_bounded(words: list[str], folder: str, given: IO[bytes], wall_s: float, most: int) -> ProgramEnd:
    """Runs a command in a folder and a separate session, then ends everything that it started.

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
        printed, in_time = _read_output(child, child.stdout, time.monotonic() + wall_s, most)
    finally:
        # It has not been waited for, so its process group id cannot have been reused.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    return ProgramEnd(printed, is_cut=len(printed) == most, in_time=in_time, code=child.returncode)


def _read_output(child: "subprocess.Popen[bytes]", output: IO[bytes], until: float, most: int) -> tuple[bytes, bool]:
    """The beginning of a process's output, and whether it ended in time. The rest is read and discarded."""
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
    """Whether a process that has closed its output ends in time; does not wait for its exit code."""
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True
