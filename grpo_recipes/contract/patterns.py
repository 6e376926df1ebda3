"""Regular expressions of a recipe, asked within limits: Python's own engine may take for ever and cannot be stopped.

A pattern whose worst case is small is asked here. Any other is asked in a process of its own, which the kernel ends
after one second of computing.
"""

import re
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

SECONDS = 1
"""CPU seconds for all patterns that are asked together; a name of a module takes a millionth of one."""
_WALL_S = 60.0
_MEMORY = 512 << 20
_MOST_STEPS = 10_000_000
_LONGEST_PLAIN = 1000
_ENDLESS = 1 << 40
_MOST_REPEATED = 12

# Reads how it is asked, the lengths of patterns and texts, and these; says of each pattern which texts it finds.
_CHILD = """
import re, resource, sys, warnings
warnings.simplefilter("ignore")
for limit, most in ((resource.RLIMIT_CPU, %d), (resource.RLIMIT_AS, %d)):
    try:
        resource.setrlimit(limit, (most, most))
    except (OSError, ValueError):
        pass
head, _, rest = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").partition("\\n")
how, count, *lengths = head.split()
parts, past = [], 0
for length in map(int, lengths):
    parts.append(rest[past:past + length])
    past += length
for pattern in parts[:int(count)]:
    try:
        match = getattr(re.compile(pattern), how)
        said = "".join("01"[match(text) is not None] for text in parts[int(count):])
    except RecursionError:
        said = "!it is nested too deeply"
    except MemoryError:
        break
    except (re.error, OverflowError, ValueError) as error:
        said = "!" + " ".join(str(error)[:200].split())
    sys.stdout.buffer.write(f"={said}\\n".encode("utf-8", "backslashreplace"))
    sys.stdout.flush()
else:
    sys.exit(0)
sys.exit(%d)
"""
_OUT_OF_MEMORY = 9


class Asked(NamedTuple):
    """finds: for each text whether it matches, empty where that is not known.

    problem: why the pattern is none; slow: why it was not asked to the end.
    """

    finds: tuple[bool, ...] = ()
    problem: str = ""
    slow: str = ""


@cache
def ask(patterns: tuple[str, ...], texts: tuple[str, ...]) -> tuple[Asked, ...]:
    """What each pattern matches as a whole, in their order."""
    return ask_once(patterns, texts, "fullmatch")


def ask_once(patterns: Sequence[str], texts: Sequence[str], how: str, seconds: int = SECONDS) -> tuple[Asked, ...]:
    """What each pattern matches, not remembered. how: fullmatch or search; seconds: for all that is asked apart."""
    longest = max(map(len, texts), default=0)
    answers: dict[int, Asked] = {}
    left = _MOST_STEPS
    for place, pattern in enumerate(patterns):
        steps = _worst_steps(pattern, longest) * max(1, len(texts)) * (max(1, longest) if how == "search" else 1)
        if steps <= left:
            left -= steps
            answers[place] = _asked_here(pattern, texts, how)
    hard = [place for place in range(len(patterns)) if place not in answers]
    if hard:
        apart = _asked_apart([patterns[place] for place in hard], texts, how, seconds)
        answers |= dict(zip(hard, apart, strict=True))
    return tuple(answers[place] for place in range(len(patterns)))


def _asked_here(pattern: str, texts: Sequence[str], how: str) -> Asked:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
    except (re.error, OverflowError, ValueError) as error:
        return Asked(problem=str(error))
    except RecursionError:
        return Asked(problem="it is nested too deeply")
    match = getattr(compiled, how)
    return Asked(tuple(match(text) is not None for text in texts))


def _asked_apart(patterns: Sequence[str], texts: Sequence[str], how: str, seconds: int) -> list[Asked]:
    """What each pattern matches, asked in a process of its own.

    Where that was ended, the pattern at which it was is slow and no later one was asked. Where no process can be
    started nothing is known of any.
    """
    import signal
    import subprocess  # only a pattern that may be slow pays for it

    parts = (*patterns, *texts)
    head = f"{how} {len(patterns)} {' '.join(str(len(part)) for part in parts)}\n"
    program = [sys.executable, "-I", "-S", "-c", _CHILD % (seconds, _MEMORY, _OUT_OF_MEMORY)]
    try:
        child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return [Asked()] * len(patterns)
    try:
        said, _ = child.communicate((head + "".join(parts)).encode("utf-8", "surrogatepass"), timeout=_WALL_S)
    except subprocess.TimeoutExpired:
        child.kill()
        said, _ = child.communicate()
    lines = [line[1:] for line in said.decode("utf-8", "replace").splitlines() if line.startswith("=")]
    answers = [
        Asked(problem=line[1:]) if line.startswith("!") else Asked(tuple(one == "1" for one in line)) for line in lines
    ]
    missing = len(patterns) - len(answers)
    if missing and child.returncode not in (-signal.SIGXCPU, -signal.SIGKILL, _OUT_OF_MEMORY):
        return answers + [Asked()] * missing
    if missing:
        answers.append(Asked(slow=f"it computes for more than {seconds} s, or needs more than {_MEMORY >> 20} MiB"))
    return answers + [Asked(slow="it was not tried, after one that computes for too long")] * (missing - 1)


def _worst_steps(pattern: str, length: int) -> int:
    """A bound for the steps in which a text of this length is tried, of a pattern that repeats no group."""
    if len(pattern) > _LONGEST_PLAIN or "(?" in pattern.replace("(?:", "") or re.search(r"\)[*+?{]", pattern):
        return _ENDLESS  # flags, which may take long to compile, looking around, and repeats in repeats
    ways: int = (length + 1) ** min(_MOST_REPEATED, sum(map(pattern.count, "*+?{")))
    for part in pattern.split("("):
        ways *= 1 + part.count("|")
    return ways * (len(pattern) + 1)
