"""Starts processes for tests, waits for them, and ensures that no process is left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from grpo_recipes.contract.host.processes import all_processes

MARK = "GRPO_RECIPES_TEST"
ROOT = Path(__file__).parents[2]
LAUNCH = "import sys; from grpo_recipes.launch.local import launch; sys.exit(launch(sys.argv[1]))"


def marked(mark: str) -> list[int]:
    """Returns the ids of running processes that were started with this mark in their environment."""
    found = []
    for process in all_processes():
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if not process.is_zombie and f"{MARK}={mark}".encode() in environment:
                found.append(process.pid)
    return found


def nothing_is_left(mark: str, limit_s: float) -> bool:
    """Whether all processes of a mark have ended within this many seconds."""
    end = time.monotonic() + limit_s
    while marked(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def leaving_nothing(mark: str, within_s: float) -> Iterator[str]:
    """Fails if a process of the mark still runs this many seconds after the test, and ends it."""
    yield mark
    nothing_is_left(mark, within_s)
    left = marked(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def wait_until(condition: Callable[[], object], timeout_s: float = 120.0) -> None:
    """Returns as soon as the condition holds; fails if it does not hold in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextlib.contextmanager
def launches() -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Yields a function that starts `launch` in a process that can get signals and does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", LAUNCH, str(folder)]
        started.append(subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    end_all(started)


def end_all(started: list["subprocess.Popen[str]"]) -> None:
    """Kills those of these processes that still run."""
    for process in started:
        with process:
            process.kill()
