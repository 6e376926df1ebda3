"""Counts the instructions of `grpo-run validate`, `plan` and `diff`: `python benchmarks/instructions.py [--check]`.

Time says little on a machine that does other things; the instructions that a process executes are the same to a
thousandth each time. All are given in floors: what a Python process that imports yaml and click and builds one Pydantic
model executes, counted by the same program on the same interpreter.

--check  ends with 1 where a bound does not hold, or where a command takes 3 % more floors than instructions.json has.
         That is for one interpreter and the versions there; with others the bounds alone are held, and that is said.
--prove  shows that the check notices: validate with one more import has to be refused.
--write  keeps the figures as those that the next ones are held against.
--table  writes fast_validate.md, beside another checkout: --before CHECKOUT.

Cachegrind counts, which is installed where that is allowed; else perf, where the machine lets it count.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from validate_time import COMMAND, FLOOR, MEGABYTES_PER_KIBIBYTE, ROOT

FIGURES = Path(__file__).with_name("instructions.json")
TABLE = Path(__file__).with_name("fast_validate.md")
RECIPE = "recipes/qwen2_lora.yaml"
MISTYPED = "trainin: {}"
SHIPPED_REWARD = "{name: accuracy, weight: 1.0}"
OWN_REWARDS = 5
OWN_REWARD = '''
def reward_{number}(completions, solution, **kwargs):
    """Returns what share of the words of each completion is expected."""
    shares = []
    for completion, expected in zip(completions, solution):
        words = [word.strip(".,;") for word in completion[0]["content"].split() if word]
        wanted = {{word.lower(): len(word) for word in expected.split()}}
        found = 0.0
        for place, word in enumerate(words):
            if word.lower() in wanted:
                found += wanted[word.lower()] / (place + 1)
        shares.append(min(1.0, found / max(len(wanted), 1)))
    return [float(share) for share in shares]
'''
MOST_MORE = 0.03
BOUNDS = {
    "validate": 1.2,
    "validate, own rewards": 1.1,
    "validate, empty cache": 1.5,
    "validate, no cache can be written": 1.5,
    "plan": 2.6,
}
MOST_MEMORY_MB = 40.0
ONE_MORE_IMPORT = "import unittest.case\n"  # about five in a hundred
PACKAGES = ("click", "packaging", "pydantic", "pyyaml")


class Case(NamedTuple):
    """One command. cache: of facts, "warm", "empty" or "none". prelude: Python that is executed before it."""

    arguments: tuple[str, ...]
    cache: str = "warm"
    exit_code: int = 0
    prelude: str = ""


CASES = {
    "floor": Case(()),
    "validate": Case(("validate", RECIPE)),
    "validate, empty cache": Case(("validate", RECIPE), "empty"),
    "validate, no cache can be written": Case(("validate", RECIPE), "none"),
    "validate, a mistyped key": Case(("validate", "{mistyped}"), exit_code=2),
    "validate, own rewards": Case(("validate", "{own}")),
    "plan": Case(("plan", RECIPE)),
    "diff": Case(("diff", RECIPE, "recipes/quickstart.yaml"), exit_code=1),
}
MANY = {"validate, 200 recipes": Case(("validate", *(RECIPE,) * 200))}
PROOF = CASES["validate"]._replace(prelude=ONE_MORE_IMPORT)


class Counted(NamedTuple):
    """What a process took. memory_mb: its peak without the counting program."""

    instructions: int
    memory_mb: float


class CannotCount(Exception):
    """Why nothing on this machine counts instructions."""


def counter() -> tuple[str, ...]:
    """The program that counts, with its options. Raises CannotCount."""
    if shutil.which("valgrind") is None and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(("apt-get", "update", "-qq"), capture_output=True, check=False)
        subprocess.run(("apt-get", "install", "-y", "-qq", "valgrind"), capture_output=True, check=False)
    if shutil.which("valgrind"):
        return ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    perf = ("perf", "stat", "-x,", "-e", "instructions:u")
    if shutil.which("perf"):
        tried = subprocess.run((*perf, "true"), capture_output=True, text=True, check=False)
        if re.search(r"^\d+,", tried.stderr, re.MULTILINE):
            return perf
        raise CannotCount("there is no valgrind, and this machine does not let perf count instructions")
    raise CannotCount("there is neither valgrind nor perf, and valgrind cannot be installed")


def count(case: Case, program: Sequence[str], checkout: Path = ROOT) -> Counted:
    """What one command of a checkout takes, after two runs that leave bytecode and caches behind."""
    with tempfile.TemporaryDirectory(prefix="counted-", dir="/tmp") as folder:
        home = Path(folder)
        mistyped = home / "mistyped.yaml"
        recipe = (checkout / RECIPE).read_text(encoding="utf-8")
        mistyped.write_text(f"{recipe}\n{MISTYPED}\n", encoding="utf-8")
        own = _with_own_rewards(home, recipe)
        arguments = [argument.format(mistyped=mistyped, own=own) for argument in case.arguments]
        python, option, source = COMMAND if arguments else FLOOR
        command = (python, option, case.prelude + source, *arguments)
        caches = home / "caches"
        if case.cache == "none":
            caches.write_text("a file, where no folder can be made", encoding="utf-8")
        environment = _environment(home, caches)
        for _ in range(2):
            memory_mb = _peak_mb(command, environment, checkout, case.exit_code)
            if case.cache == "empty":
                shutil.rmtree(caches)
        done = subprocess.run(
            (*program, *command), cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr) or re.search(r"^(\d+),", done.stderr, re.MULTILINE)
    if done.returncode != case.exit_code or found is None:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return Counted(int(found[1].replace(",", "")), memory_mb)


def _with_own_rewards(folder: Path, recipe: str) -> Path:
    """A recipe with five rewards of a file of 650 lines, which has 50 functions."""
    functions = (OWN_REWARD.format(number=number) for number in range(10 * OWN_REWARDS))
    (folder / "rewards.py").write_text("".join(functions), encoding="utf-8")
    rewards = "\n  - ".join(f"{{python: rewards.py:reward_{number}}}" for number in range(OWN_REWARDS))
    file = folder / "own.yaml"
    file.write_text(recipe.replace(SHIPPED_REWARD, rewards), encoding="utf-8")
    return file


def _environment(home: Path, caches: Path) -> Mapping[str, str]:
    """Nothing of this machine's: the order of sets, the language and the folders are the same each time."""
    kept = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(caches)}


def _peak_mb(command: Sequence[str], environment: Mapping[str, str], folder: Path, exit_code: int) -> float:
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != exit_code:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{said}")
    return usage.ru_maxrss * MEGABYTES_PER_KIBIBYTE


def counted_on(program: Sequence[str]) -> dict[str, str]:
    """What the figures are of: another interpreter, library or counting program gives others."""
    python = f"{platform.python_version()} {platform.python_compiler()} {platform.machine()}"
    return {"python": python, "counter": program[0], **{package: version(package) for package in PACKAGES}}


def in_floors(found: Mapping[str, Counted]) -> dict[str, float]:
    """Each command but the floor, in floors."""
    floor = found["floor"].instructions
    return {name: one.instructions / floor for name, one in found.items() if name != "floor"}


def too_much(floors: Mapping[str, float], kept: Mapping[str, float]) -> list[str]:
    """What is wrong with the figures: beyond a bound, or 3 % beyond a kept one; a command without one is new."""
    wrong = [
        f"{name}: {floors[name]:.3f} floors, at most {most:g}" for name, most in BOUNDS.items() if floors[name] > most
    ]
    for name in kept.keys() & floors.keys():
        if floors[name] > kept[name] * (1 + MOST_MORE):
            more = floors[name] / kept[name] - 1
            wrong.append(f"{name}: {floors[name]:.3f} floors, {more:+.1%} on {kept[name]:.3f}")
    return sorted(wrong)


def kept_figures(on: Mapping[str, str]) -> Mapping[str, float]:
    """The figures that are kept for this interpreter and these versions, {} with a line that says what differs."""
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {"on": {}, "floors": {}}
    other = [
        f"{name} {on[name]} here and {kept['on'].get(name)} there" for name in on if on[name] != kept["on"].get(name)
    ]
    if not other:
        return dict(kept["floors"])
    # Another interpreter or library executes others for the same work: a difference would say nothing of this code.
    print(f"not held against {FIGURES.name}, whose figures are of another machine: {', '.join(other)}")
    return {}


def check(found: Mapping[str, Counted], kept: Mapping[str, float]) -> list[str]:
    """What is wrong with all figures, of memory too."""
    memory_mb = found["validate"].memory_mb
    large = [f"validate: {memory_mb:.1f} MB, at most {MOST_MEMORY_MB:g}"] if memory_mb > MOST_MEMORY_MB else []
    return [*too_much(in_floors(found), kept), *large]


def prove(found: Mapping[str, Counted], program: Sequence[str]) -> bool:
    """Whether one more import is noticed when the figures of a moment ago are those that are kept."""
    floors = in_floors(found)
    altered = {**found, "validate": count(PROOF, program)}
    noticed = too_much(in_floors(altered), floors)
    more = in_floors(altered)["validate"] / floors["validate"] - 1
    print(f"one more import, {more:+.1%}: {'noticed' if noticed else 'NOT NOTICED'}")
    return bool(noticed) and not too_much(floors, floors)


def table_text(before: Mapping[str, Counted], after: Mapping[str, Counted], commit: str, on: Mapping[str, str]) -> str:
    """The page fast_validate.md."""
    head = ["| command | before, M | floors | MB | after, M | floors | MB |", "|---|---|---|---|---|---|---|"]
    rows = []
    for name in after:
        cells = [
            cell
            for found in (before, after)
            for cell in (
                f"{found[name].instructions / 1e6:,.0f}",
                f"{found[name].instructions / found['floor'].instructions:.2f}",
                f"{found[name].memory_mb:.1f}",
            )
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    versions = ", ".join(f"{name} {value}" for name, value in on.items())
    return f"""# Instructions of a check

Millions of instructions, counted by `python benchmarks/instructions.py --table --before CHECKOUT`; "before" is
{commit}. Counted with {versions}.
The floor is a process that imports yaml and click and builds one Pydantic model.

{chr(10).join((*head, *rows))}

`peers.md` has the CPU time of TRL's command and soup-cli for the same check.
"""


def main() -> int:
    """Counts, prints, and with --check says by its exit whether the figures hold."""
    parser = argparse.ArgumentParser(description="Counts the instructions of commands, in floors.")
    parser.add_argument("--check", action="store_true", help="exit 1 where a figure is beyond its bound")
    parser.add_argument("--prove", action="store_true", help="exit 1 where one more import is not noticed")
    parser.add_argument("--write", action="store_true", help="keep the figures")
    parser.add_argument("--table", action="store_true", help="write fast_validate.md")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="an older checkout, for --table")
    options = parser.parse_args()
    try:
        program = counter()
    except CannotCount as reason:
        print(f"nothing was counted: {reason}; benchmarks/validate_time.py holds the bounds by processor time alone")
        return 0
    cases = CASES | (MANY if options.table else {})
    found = {name: count(case, program) for name, case in cases.items()}
    on = counted_on(program)
    for name, one in found.items():
        floors = one.instructions / found["floor"].instructions
        print(f"{name:<36}{one.instructions / 1e6:>10,.1f} M{floors:>8.3f} floors{one.memory_mb:>7.1f} MB")
    if options.write:
        kept = {
            "on": on,
            "floors": {name: round(floors, 4) for name, floors in in_floors(found).items() if name in CASES},
        }
        FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if options.table and options.before:
        before = {name: count(case, program, options.before.resolve()) for name, case in cases.items()}
        commit = subprocess.run(
            ("git", "rev-parse", "--short=7", "HEAD"), cwd=options.before, capture_output=True, text=True, check=True
        )
        TABLE.write_text(table_text(before, found, commit.stdout.strip(), on), encoding="utf-8")
    wrong = check(found, kept_figures(on)) if options.check else []
    if options.prove and not prove(found, program):
        wrong.append("one more import is not noticed")
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
