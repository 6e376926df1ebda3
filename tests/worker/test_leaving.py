"""The end of a process: where a thread cannot be had, and where a library aborts it."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

LEAVES = """
import _thread, sys, threading
def start(*given):
    {start}
_thread.start_new_thread = threading._start_new_thread = start
from grpo_recipes.worker.survival.interruption import leave_soon
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
        [sys.executable, "-c", LEAVES.format(start=start)], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stderr) == (3, "")


ABORTS = """
import atexit, gzip, os, threading, time
class Library:
    def __del__(self):
        os.abort()
library = Library()
text, packed = open("text", "w"), gzip.open("packed.gz", "wt")
text.write("a line")
packed.write("a line")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
atexit.register(lambda: print("registered"))
from grpo_recipes.worker.survival.interruption import leave
leave(3)
"""


@pytest.mark.parametrize(("processes", "code"), [("2", 3), ("1", -signal.SIGABRT)])
def test_a_library_that_aborts_at_the_very_end_does_not_change_the_code_of_one_of_several(
    processes: str, code: int, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", ABORTS]
    variables = {**os.environ, "WORLD_SIZE": processes}
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False, env=variables, cwd=tmp_path)
    assert done.returncode == code
    if processes == "2":
        assert done.stdout.split() == ["thread", "registered"]
        assert (tmp_path / "text").read_text() == "a line"
        assert gzip.decompress((tmp_path / "packed.gz").read_bytes()) == b"a line"
