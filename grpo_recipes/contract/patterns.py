"""Matches a recipe's regular expressions within limits, since Python's own engine may run for ever.

A separate process matches them; the kernel ends it after one second of CPU time.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

SECONDS = 1
"""CPU seconds for all patterns of one call; matching a module name takes a microsecond."""
_WALL_S = 60.0
_MEMORY = 512 << 20

# Reads the method of re, the patterns and the texts. Prints for each pattern the texts that it matches, or its error.
_CHILD = """
import json, re, resource, sys, warnings
warnings.simplefilter("ignore")
for limit, most in ((resource.RLIMIT_CPU, %d), (resource.RLIMIT_AS, %d)):
    try:
        resource.setrlimit(limit, (most, most))
    except (OSError, ValueError):
        pass
how, patterns, texts = json.load(sys.stdin)
for pattern in patterns:
    finds, problem = [], ""
    try:
        match = getattr(re.compile(pattern), how)
        finds = [match(text) is not None for text in texts]
    except RecursionError:
        problem = "it is nested too deeply"
    except MemoryError:
        sys.exit(%d)
    except (re.error, OverflowError, ValueError) as error:
        problem = " ".join(str(error)[:200].split())
    print(json.dumps([finds, problem]), flush=True)
"""
_OUT_OF_MEMORY = 9


class Asked(NamedTuple):
    """The matches of one pattern. finds: for each text whether the pattern matches, empty if unknown.

    problem: why the pattern does not compile; slow: why matching was given up.
    """

    finds: tuple[bool, ...] = ()
    problem: str = ""
    slow: str = ""


@cache
def ask(patterns: tuple[str, ...], texts: tuple[str, ...]) -> tuple[Asked, ...]:
    """The texts that each pattern matches in full, in the order of the patterns."""
    return ask_once(patterns, texts, "fullmatch")


def ask_once(patterns: Sequence[str], texts: Sequence[str], how: str, seconds: int = SECONDS) -> tuple[Asked, ...]:
    """The matches of each pattern, uncached. how: fullmatch or search; seconds: for all together.

    If the process ran out of time, the current pattern is slow and later ones are not matched. If no process can be
    started, nothing is known about any.
    """
    if not patterns:
        return ()
    import json
    import signal
    import subprocess  # only a recipe with patterns pays for them

    program = [sys.executable, "-I", "-S", "-c", _CHILD % (seconds, _MEMORY, _OUT_OF_MEMORY)]
    question = json.dumps((how, patterns, texts)).encode()
    printed, is_slow = b"", False
    try:
        ended = subprocess.run(
            program, input=question, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_WALL_S, check=False
        )
        printed = ended.stdout
        is_slow = ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL, _OUT_OF_MEMORY)
    except subprocess.TimeoutExpired as late:
        printed, is_slow = late.stdout or b"", True
    except OSError:
        pass
    whole_lines = printed.split(b"\n")[:-1]
    answers = [Asked(tuple(finds), problem) for finds, problem in map(json.loads, whole_lines)]
    if is_slow and len(answers) < len(patterns):
        answers.append(Asked(slow=f"it takes more than {seconds} s, or needs more than {_MEMORY >> 20} MiB"))
    untried = Asked(slow="it was not tried, since an earlier one takes too long" if is_slow else "")
    return (*answers, *[untried] * (len(patterns) - len(answers)))
