"""`python limited_runs.py`: trains small models under a limit of the kernel's and says how each training ended.

Trainings come as JSON lines on standard input, each with the bytes that it may take beside what the process has; a line
about each goes to standard output. Every training is a fork of one process that has the libraries and has trained.
"""

import gc
import json
import os
import resource
import sys
import traceback
from typing import Any

from cpu_run import TINY, resident, train

from grpo_recipes.worker.memory.out_of_memory import is_of_memory

TRAINED, OUT_OF_MEMORY, BROKEN = "trained", "out of memory", "broken"
EXIT_CODES = {0: TRAINED, 3: OUT_OF_MEMORY}


def limited(asked: dict[str, Any], more: int) -> int:
    """The exit code of a training in this process, which may take so many bytes more than a tiny one of its kind left.

    RLIMIT_DATA counts what is private and can be written, whether it was ever touched or not: the heap and mappings
    such as those of torch's allocator, on Linux from 4.7 on.
    """
    _tiny(asked)
    gc.collect()
    resource.setrlimit(resource.RLIMIT_DATA, (resident("VmData") + more, resource.RLIM_INFINITY))
    try:
        train(asked, asked["config"])
    except BaseException as problem:
        if is_of_memory(problem):
            return 3
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        traceback.print_exc()
        return 1
    return 0


def _tiny(asked: dict[str, Any]) -> None:
    """What a training of this kind imports and sets up once."""
    train({**asked, "batch": 2, "completion": 4}, asked["config"] | TINY)


def _end_of(asked: dict[str, Any], more: int) -> str:
    """How a fork that trains ends."""
    child = os.fork()
    if child == 0:
        os._exit(limited(asked, more))
    return EXIT_CODES.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), BROKEN)


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
