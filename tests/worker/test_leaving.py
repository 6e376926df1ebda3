"""The end of a process: where a thread cannot be had, and where a library aborts it."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

LEAVES = """
import _thread, sys, threading
def start(*given):
    {start}
_thread.start_new_thread = threading._start_new_thread = start
from grpo_recipes.worker.survival.leaving import leave_soon
leave_soon(3)
sys.exit(3)
"""


@pytest.mark.parametrize(
    "start",
    ["return 1", 'raise RuntimeError("can\'t start new thread")', "raise MemoryError"],
    ids=["a thread that dies before it runs", "no thread", "no memory"],
)
def test_a_process_ends_without_the_thread_that_watches_its_end(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES.format(start=start)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (3, "")


ABORTS = """
import atexit, os, threading, time
class Library:
    def __del__(self):
        os.abort()
library = Library()
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
atexit.register(lambda: print("registered"))
{leave}
"""


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("from grpo_recipes.worker.survival.leaving import leave; leave(3)", 3),
        ("raise SystemExit(3)", -signal.SIGABRT),
    ],
)
def test_a_library_that_aborts_at_the_very_end_does_not_change_the_exit_code(leave: str, code: int) -> None:
    words = [sys.executable, "-c", ABORTS.format(leave=leave)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert code != 3 or done.stdout.split() == ["thread", "registered"]
