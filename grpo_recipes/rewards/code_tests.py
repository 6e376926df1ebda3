"""The share of its tests that a completion's Python code passes, run in a process of its own with limits.

Code that a model writes has no more than a second of computing for each test, 1 GiB of memory and an empty folder, and
is ended after half a minute. The kernel holds it there, by Landlock or by bubblewrap: it cannot write elsewhere, read
your files, start a process or reach the network; the pages about tools say what is left open. Where a machine has
neither, the reward is not loaded, unless the recipe says `launch.sandbox: none`. A model may learn to pass tests
otherwise than by solving the task; look at its completions.
"""

import re
from concurrent.futures import ThreadPoolExecutor

from grpo_recipes.contract.sandbox.run import Limits, require, run

FENCED = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\r?\n(.*?)```", re.S | re.I)
SECONDS_A_TEST = 1
WALL_SECONDS = 30
MEMORY = 1 << 30
AT_ONCE = 4

# Runs the code and the tests of `given`, and prints a letter for each test; what they print themselves is dropped.
PROGRAM = """
import os, sys, types
answer, nowhere = os.fdopen(os.dup(1), "w"), os.open(os.devnull, os.O_WRONLY)
module = sys.modules["completion"] = types.ModuleType("completion")
space = vars(module)
os.dup2(nowhere, 1)
os.dup2(nowhere, 2)
code, tests = given
try:
    exec(code, space)
except BaseException:
    sys.exit()
for test in tests:
    try:
        exec(test, dict(space))
    except BaseException:
        answer.write("0")
    else:
        answer.write("1")
    answer.flush()
"""

require()


def code_tests(
    completions: list, *, test_list: list[list[str]], test_setup_code: list[str], **kwargs: object
) -> list[float | None]:
    """Gives the share of `test_list` that passes; a row without tests gets None, that is, no reward.

    The code of a completion is its first fenced block, or all of it.
    """
    asked = zip(completions, test_list, test_setup_code, strict=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [pool.submit(_share, _code(given), setup or "", tests) for given, tests, setup in asked]
        return [one.result() for one in found]


def _code(completion: object) -> str:
    text = completion if isinstance(completion, str) else "".join(one.get("content") or "" for one in completion)
    fenced = FENCED.search(text)
    return fenced.group(1) if fenced else text


def _share(code: str, setup: str, tests: list[str]) -> float | None:
    if not tests:
        return None
    limits = Limits(WALL_SECONDS, 1 + SECONDS_A_TEST * len(tests), MEMORY, file_bytes=0, processes=0)
    ended = run(PROGRAM, limits, [f"{setup}\n{code}", list(tests)])
    return ended.printed[: len(tests)].count(b"1") / len(tests)
