"""What pip and uv answer to each extra, on each Python, with the constraints for GPUs and without: as they should?

    python constraints/resolve.py [--full]       run by the Python of .venv; the resolvers are in .venv-resolve

Without constraints the newest releases that the bounds of pyproject.toml allow have to be those that were tested, but
for what comes after the second number, and no package may declare that it does not go with another. With constraints
every package has to be the one of the file. Exits with 1 where one of that is not so, and says what; an index that does
not answer is a warning, an error with --strict. --full asks pip on all Pythons that there are, and writes
benchmarks/resolved.md.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from extras import PYTHONS, requirements_of
from packaging.version import Version
from resolved_page import page
from resolving import Answer, asked_of_pip, asked_of_uv, interpreter_of, pins

from grpo_recipes.facts.released.requirements import find_conflicts
from grpo_recipes.stack.stack import PACKAGES, Stack

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "resolved.md"
CUDA, CUDA12 = ROOT / "constraints/cuda.txt", ROOT / "constraints/cuda12.txt"
ALL = ("train", "quantization", "deepspeed", "vllm")
COMBINATIONS = (
    ("train",),
    ("train", "quantization"),
    ("train", "deepspeed"),
    ("train", "quantization", "deepspeed"),
    ("train", "vllm"),
    ALL,
    ("vllm",),
)
# With constraints: what needs fewer packages finds the same ones.
LARGEST = {CUDA: ALL, CUDA12: ALL[:-1]}
# What the extras are about, without any bound: what they would be without pyproject.toml.
NAMES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "bitsandbytes", "deepspeed")
_AT_ONCE = 6  # they wait for the index more than they compute


class Asked(NamedTuple):
    """One installation, the resolver that was asked, its answer, and what is wrong with that."""

    extras: tuple[str, ...]
    python: str
    resolver: str
    constraints: Path | None
    answer: Answer
    faults: tuple[str, ...]

    def __str__(self) -> str:
        file = f" with {self.constraints.name}" if self.constraints else ""
        return f"[{','.join(self.extras)}]{file} on Python {self.python}, {self.resolver}"


class Question(NamedTuple):
    """One installation that is still to be asked for. interpreter: pip's, None for uv, which needs none."""

    extras: tuple[str, ...]
    python: str
    constraints: Path | None
    interpreter: str | None = None


def questions(full: bool, interpreters: Mapping[str, str]) -> Iterator[Question]:
    """Every combination on every Python for uv; for pip on these interpreters the largest ones, and all if full."""
    for python in PYTHONS:
        yield from (Question(extras, python, None) for extras in COMBINATIONS)
        yield from (Question(extras, python, file) for file, extras in LARGEST.items())
    for python, interpreter in interpreters.items():
        yield Question(ALL, python, None, interpreter)
        yield from (Question(extras, python, file, interpreter) for file, extras in LARGEST.items())
        if full:
            yield from (Question(extras, python, None, interpreter) for extras in COMBINATIONS if extras != ALL)


def interpreters(full: bool) -> dict[str, str]:
    """The Pythons that pip is asked on: that of this program, and all that are here if full."""
    wanted = PYTHONS if full else (f"{sys.version_info.major}.{sys.version_info.minor}",)
    found = {python: interpreter_of(python) for python in wanted}
    for python in [python for python, where in found.items() if where is None]:
        print(f"resolve: there is no Python {python} here, so pip was not asked on it")
    return {python: where for python, where in found.items() if where is not None}


def asked(question: Question, tested: dict[str, str]) -> Asked:
    """The answer to a question, once more where the index gave none, and what is wrong with it."""
    extras, python, constraints, interpreter = question
    wanted = requirements_of(extras)
    for _ in range(2):
        answer = (
            asked_of_uv(wanted, python, constraints)
            if interpreter is None
            else asked_of_pip(wanted, interpreter, constraints)
        )
        if not answer.unreachable:
            break
    wrong = tuple(faults(answer, python, constraints, tested))
    return Asked(extras, python, "uv" if interpreter is None else "pip", constraints, answer, wrong)


def boundless() -> list[Asked]:
    """What uv answers to the names alone, with vLLM and without."""
    return [
        Asked(names, python, "uv", None, asked_of_uv(names, python), ())
        for names in (NAMES, (*NAMES, "vllm"))
        for python in PYTHONS
    ]


def faults(answer: Answer, python: str, constraints: Path | None, tested: dict[str, str]) -> Iterator[str]:
    """What is not as it should be of an answer, none of one that an index did not give."""
    if answer.versions is None:
        if not answer.unreachable:
            yield f"cannot be installed: {answer.said}"
        return
    if constraints is not None:
        pinned = pins(constraints.read_text(encoding="utf-8"))
        for name, version in sorted(answer.versions.items()):
            if pinned.get(name) != version:
                yield f"{name} {version} would be installed, {constraints.name} has {pinned.get(name, 'none')}"
    for name in PACKAGES:
        version = answer.versions.get(name)
        if constraints is None and version and name in tested and _minor(version) != _minor(tested[name]):
            yield f"{name} {version} would be installed, tested was {tested[name]}: see its bounds in pyproject.toml"
    stack = Stack(python, {name: answer.versions.get(name) for name in PACKAGES}, None, None, True, "the answer")
    for conflict in find_conflicts(stack):
        if conflict.requirement.extra is None or conflict.requirement.extra in ("vllm", "quantization", "deepspeed"):
            yield f"{conflict.package} {conflict.version} declares {conflict.requirement}, beside {conflict.found}"


def _minor(version: str) -> tuple[int, ...]:
    return Version(version).release[:2]


def main(words: Sequence[str]) -> int:
    """Prints what is not as it should be; the exit code."""
    full = "--full" in words
    tested = pins(CUDA.read_text(encoding="utf-8"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        all_asked = list(pool.map(lambda question: asked(question, tested), questions(full, interpreters(full))))
    wrong = [one for one in all_asked if one.faults]
    for one in wrong:
        for fault in one.faults:
            print(f"resolve: {one}: {fault}")
    silent = [one for one in all_asked if one.answer.unreachable]
    if silent:
        print(f"resolve: warning: the package index gave no answer to {len(silent)} of {len(all_asked)}, the first:")
        print(f"  {silent[0]}: {silent[0].answer.said}")
    elif full and not wrong:
        TABLE.write_text(page(all_asked, boundless()), encoding="utf-8")
        print(f"resolve: wrote {TABLE.relative_to(ROOT)}")
    print(f"resolve: {len(all_asked)} installations, {len(wrong)} not as tested, {len(silent)} without an answer")
    return 1 if wrong or (silent and "--strict" in words) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
