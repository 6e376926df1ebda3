"""The share of its tests that a completion's Python code passes, run in separate processes with limits.

The kernel confines that code with Landlock or bubblewrap: it can write only to an empty folder, read none of your
files, start no process and reach no network; docs/tools.md lists what remains possible. On a machine with neither, the
reward does not load, unless the recipe sets `launch.sandbox: none`.
"""

import json
import os
import re
import signal
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grpo_recipes.contract.sandbox.bounded_command import ProgramEnd
from grpo_recipes.contract.sandbox.run import Limits, require, run
from grpo_recipes.rewards.completion_text import Completion, check_whole_number, completion_text

# A fence that is indented further than the first one, and than Markdown allows, belongs to the code.
BLOCK = re.compile(r"^([ \t]*+)```[ \t]*+(\S*+)[^\n]*+\n(.*?)^(?:\1| {0,3})```", re.S | re.M)
WALL_SECONDS = 10
"""Added to twice the CPU time, for code that waits."""
LARGEST_FILE = 1 << 20
BYTES_A_CHARACTER, SPARE_BYTES = 4, 1 << 16
"""The output limit of a program: bytes per expected character, and extra."""
Case = tuple[str, str]
"""The input of a program, and its expected output."""

# Runs the code and the statements of `given`, and prints a digit for each; their own output is dropped.
STATEMENTS = """
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
# Runs the code of `given` as a program with a text on its standard input; its error output is dropped.
WITH_INPUT = """
import os, sys, types
code, text = given
with open("input", "w+b") as file:
    os.remove("input")
    file.write(text.encode("utf-8", "surrogatepass"))
    file.seek(0)
    os.dup2(file.fileno(), 0)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
sys.stdin, sys.stdout = open(0, encoding="utf-8", closefd=False), open(1, "w", encoding="utf-8", closefd=False)
main = sys.modules["__main__"] = types.ModuleType("__main__")
exec(compile(code, "code", "exec"), vars(main))
"""

require()


def code_tests(
    completions: list[Completion],
    *,
    tests: list[object],
    fences: Sequence[str] = ("python", "python3", "py"),
    cpu_seconds: int = 2,
    memory_mb: int = 1024,
    partial: bool = True,
    **kwargs: object,
) -> list[float | None]:
    """Gives the share of `tests` that the Python code of a completion passes, from 0.0 to 1.0.

    The code is the last fenced block with one of `fences` after its ```, ignoring case; without one the reward is 0.0.
    It runs in grpo-run's sandbox: without network, other processes or your files. As many completions of a batch run in
    parallel as this process has cores.
    tests: for each row a list, or its JSON text, of statements ("assert add(1, 2) == 3"), which run after the code, and
    of {input, output}: the code runs as a program with this text on its standard input, has to print the output,
    ignoring white space around lines, and to end without an error; also {inputs: [...], outputs: [...]}. A row without
    tests gets None, that is, no reward.
    cpu_seconds: CPU time for each test. After a test of {input, output} that takes longer, or waits too long, the
    others are not run and count as failed. memory_mb: address space of a program. partial: False gives 0.0 unless all
    tests pass. Code could detect how statements are judged, and claim to pass them; it never sees an expected output.
    """
    check_whole_number(cpu_seconds, "code_tests: cpu_seconds", 1)
    check_whole_number(memory_mb, "code_tests: memory_mb", 64)
    if isinstance(fences, str) or not all(isinstance(fence, str) for fence in fences):
        raise ValueError(f"code_tests: fences {fences!r} is not a list of words, such as [python]")
    if not isinstance(partial, bool):
        raise ValueError(f"code_tests: partial {partial!r} is neither true nor false")
    words = {fence.lower() for fence in fences}
    codes = [_code(completion_text(given), words) for given in completions]
    asked = list(zip(codes, map(_tests, tests), strict=True))
    with ThreadPoolExecutor(_at_once()) as pool:
        judged = [pool.submit(_share, code, of_row, cpu_seconds, memory_mb << 20) for code, of_row in asked]
        shares = [each.result() for each in judged]
    return [share if share is None or partial else float(share == 1.0) for share in shares]


def _at_once() -> int:
    """The cores of this process, shared with the machine's other training processes."""
    return max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE") or 1))


def _code(text: str, words: set[str]) -> str | None:
    blocks = [
        block if indent == "" else textwrap.dedent(block)
        for indent, word, block in BLOCK.findall(text)
        if word.lower() in words
    ]
    return blocks[-1] if blocks else None


def _tests(given: object) -> list[str | Case]:
    """The tests of a row. Raises ValueError if the value cannot be read as tests."""
    try:
        value = json.loads(given.strip() or "null") if isinstance(given, str) else given
        return [_test(each) for each in _as_list(_pair(value) if isinstance(value, dict) else value or [])]
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"code_tests: tests {str(given)[:80]!r} is not a list of statements or of {{input, output}}, nor its JSON, "
            "which a template writes with {{ ... | tojson }}"
        ) from None


def _as_list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return list(value)


def _pair(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The tests of data sets that keep all inputs in one list and all outputs in another."""
    pairs = zip(_as_list(value["inputs"]), _as_list(value["outputs"]), strict=True)
    return [{**value, "input": given, "output": wanted} for given, wanted in pairs]


def _test(given: str | dict[str, Any]) -> str | Case:
    if isinstance(given, str):
        return given
    case = given["input"], given["output"]
    # If a function is called, inputs are arguments, which no program reads.
    if given.get("fn_name") or "functional" in (given.get("type"), given.get("testtype")):
        raise ValueError
    if not all(isinstance(each, str | int | float) for each in case):
        raise ValueError
    return str(case[0]), str(case[1])


def _share(code: str | None, tests: list[str | Case], cpu_seconds: int, memory: int) -> float | None:
    if not tests or code is None:
        return 0.0 if tests else None
    statements = [test for test in tests if isinstance(test, str)]
    passed = _count_passed(code, statements, cpu_seconds, memory) if statements else 0
    for test in tests:
        if not isinstance(test, str):
            is_passed, ended = _run_case(code, test, cpu_seconds, memory)
            passed += is_passed
            if not ended.in_time or -ended.code in (signal.SIGXCPU, signal.SIGKILL):
                break
    return passed / len(tests)


def _count_passed(code: str, statements: list[str], cpu_seconds: int, memory: int) -> int:
    limits = _limits(cpu_seconds * len(statements), memory, printed_bytes=len(statements))
    return run(STATEMENTS, limits, [code, statements]).printed.count(b"1")


def _run_case(code: str, case: Case, cpu_seconds: int, memory: int) -> tuple[bool, ProgramEnd]:
    given, wanted = case
    size, most = len(given.encode("utf-8", "surrogatepass")), len(wanted) * BYTES_A_CHARACTER + SPARE_BYTES
    ended = run(WITH_INPUT, _limits(cpu_seconds, memory, file_bytes=size, printed_bytes=most), [code, given])
    printed = ended.printed.decode("utf-8", "replace")
    return ended.in_time and ended.code == 0 and not ended.is_cut and _lines(printed) == _lines(wanted), ended


def _limits(seconds: int, memory: int, *, file_bytes: int = 0, printed_bytes: int) -> Limits:
    wall_s = WALL_SECONDS + 2 * seconds
    return Limits(wall_s, seconds, memory, max(file_bytes, LARGEST_FILE), processes=0, printed_bytes=printed_bytes)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
