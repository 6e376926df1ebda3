"""The end of a process where a thread cannot be had."""

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
