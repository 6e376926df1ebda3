"""`python limited_runs.py`: trains small models under a limit of the kernel's and says how each training ended.

Trainings come as JSON lines on standard input, each with the bytes that it may take beside what the process has; a line
about each goes to standard output. Every training is a fork of one process that has the libraries and has trained, in
a memory cgroup of its own, which a system lets root make, or whom it was delegated to.
"""

import gc
import json
import os
import signal
import sys
import traceback
from typing import Any

from cpu_run import TINY, train
from memory_group import MemoryGroup, memory_group

TRAINED, OUT_OF_MEMORY, BROKEN = "trained", "out of memory", "broken"
ENDS = {0: TRAINED, -signal.SIGKILL: OUT_OF_MEMORY}


def limited(asked: dict[str, Any], more: int, group: MemoryGroup) -> None:
    """A training in this process, which may take so many bytes more than a tiny one of its kind left."""
    group.join()
    _tiny(asked)
    gc.collect()
    group.limit(group.used() + more)
    train(asked, asked["config"])


def _tiny(asked: dict[str, Any]) -> None:
    """What a training of this kind imports and sets up once."""
    train({**asked, "batch": 2, "completion": 4}, asked["config"] | TINY)


def _end_of(asked: dict[str, Any], more: int) -> str:
    """How a fork that trains ends: the kernel kills it when it has no more memory for it."""
    with memory_group("grpo-run-limited") as group:
        child = os.fork()
        if child == 0:
            try:
                limited(asked, more, group)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        return ENDS.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), BROKEN)


def main() -> None:
    first = True
    for line in sys.stdin:
        asked = json.loads(line)
        if first:
            _tiny(asked)
            first = False
        print(json.dumps({"ended": _end_of(asked, asked["more"])}), flush=True)


if __name__ == "__main__":
    main()
