"""Moves the tested stack to a release of one package: `make release-of transformers==5.24.0`.

    python tests/release/release_of.py PACKAGE==VERSION [--wheel FILE | --rehearse] [--read] [--suites NAMES]

It reads the release and shows what it changes for a recipe and for the worker; writes pins, tables and pages; installs
it into .venv; runs the suites that can notice; and ends with what a person has to decide. --wheel: a release that is
not on the package index. --rehearse: a TRL that was never released, which rehearsal.py makes. --read: only shows what
changed, and writes nothing. --suites: some of them, with commas. vLLM and torch are only read, because `.venv` has
neither vLLM nor a torch for GPUs. CONTRIBUTING.md, "A new release of a library", has the rest.
"""

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "facts"), str(ROOT / "tests")]

import package_index  # noqa: E402
from changes import (  # noqa: E402
    MEMBERS,
    cited_files,
    citing_texts,
    field_changes,
    member_changes,
    path_in_wheel,
    source_changes,
    unclassified_fields,
    window_changes,
)
from collect_facts import collect_newer, declared_windows, metadata_of, unpack  # noqa: E402
from pins import complete_lock, move_pins, pinned_release  # noqa: E402
from rehearsal import rehearsed_wheel  # noqa: E402

from grpo_recipes.facts.source.package_facts import MODULES  # noqa: E402
from grpo_recipes.facts.source.package_source import PackageSource  # noqa: E402
from grpo_recipes.facts.source.read_package import read_package  # noqa: E402

PACKAGES = ("trl", "transformers", "peft", "accelerate", "datasets", "bitsandbytes", "deepspeed", "vllm", "torch")
READ_ONLY = ("vllm", "torch")
# What writes that which follows from the pins: targets of make, and a program.
WRITES = ("make cuda-locks", ".venv/bin/python tests/facts/model_modules.py", "make docs schemas coverage")
# What notices a release, the quickest first: core trains, resumes and exports; unit has facts, rules and pages. STACK
# is the name of the newest stack.
PYTEST = ".venv/bin/python -m pytest -rfE"
SUITES = {
    "seams": f"{PYTEST} tests/worker/test_seams.py tests/test_replaced_members.py",
    "shims": f"{PYTEST} tests/worker -m stack -k shim|less_padding|equal_rewards|text_rows|token_figures",
    "core": "make test-core PYTEST_ARGS=-rfE",
    "unit": "make test-unit PYTEST_ARGS=-rfE",
    "stacks": f"{PYTEST} tests/stacks -m stacks --stacks STACK -k STACK",
    "evidence": "make test-evidence PYTEST_ARGS=-rfE",
}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_COUNTS = re.compile(r"^=*\s*((?:\d+ \w+,? ?)+) in [\d.]+s", re.MULTILINE)
LOG = ROOT / "build" / "release.log"
_MOST = 10


class Source(NamedTuple):
    """A release whose wheel was unpacked in part. names: every file of the wheel. metadata: of the wheel."""

    version: str
    folder: Path
    names: tuple[str, ...]
    metadata: str


def main(words: list[str] | None = None) -> int:
    """Runs the command; 1 if a person has to decide something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", metavar="PACKAGE==VERSION")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--suites", metavar="NAMES", default=",".join(SUITES))
    arguments = parser.parse_args(words)
    package, separator, version = arguments.release.partition("==")
    if package not in PACKAGES or not separator or not version:
        parser.error(f"{arguments.release} is not PACKAGE==VERSION, with a package of {', '.join(PACKAGES)}")
    suites = arguments.suites.split(",")
    if unknown := [name for name in suites if name not in SUITES]:
        parser.error(f"{unknown[0]} is no suite; there are {', '.join(SUITES)}")
    started, before = time.monotonic(), pinned_release(package)
    is_moved = not arguments.read and package not in READ_ONLY
    with tempfile.TemporaryDirectory() as folder:
        wheel = arguments.wheel
        if arguments.rehearse:
            rehearsed, wheel = rehearsed_wheel(Path(folder))
            if (package, version) != ("trl", rehearsed):
                parser.error(f"--rehearse makes trl=={rehearsed}")
        print(f"{package} {before} -> {version}", flush=True)
        decisions = show_changes(package, before, version, wheel)
        if is_moved:
            decisions += move(package, version, wheel, suites)
    _say("left to a person", decisions or ["nothing"])
    changed = f"{_changed_files()} files changed" if is_moved else "nothing was written"
    print(f"\n{time.monotonic() - started:.0f} s; {changed}")
    return int(bool(decisions))


def show_changes(package: str, before: str, version: str, wheel: Path | None) -> list[str]:
    """Prints what the release changes; what of that a person has to decide."""
    decisions = []
    with tempfile.TemporaryDirectory() as old_folder, tempfile.TemporaryDirectory() as new_folder:
        counts = cited_files(package, citing_texts())
        old = _installed(package, before) or _unpacked(package, before, _wheel(package, before), old_folder, counts)
        opened = zipfile.ZipFile(wheel) if wheel else _wheel(package, version)
        new = _unpacked(package, version, opened, new_folder, counts)
        if package in MODULES:
            facts = [read_package(PackageSource(package, one.folder / package), one.version) for one in (old, new)]
            if facts[0] is None or facts[1] is None:
                decisions.append(f"{package} {version} has no readable {', '.join(MODULES[package])}")
            else:
                _say("fields", field_changes(facts[0], facts[1]))
                unclassified = unclassified_fields(facts[1])
                decisions += [f"classify {name} in classified_fields.json" for name in unclassified]
        _say("requirements", window_changes(declared_windows(old.metadata), declared_windows(new.metadata)))
        members = list(member_changes(package, old.folder, new.folder))
        _say("members that the worker uses", members)
        decisions += [f"{line}: read it, and contract/seams.py" for line in members]
        paths = {path: count for cited, count in counts.items() if (path := path_in_wheel(cited, old.names))}
        sources = list(source_changes(paths, old.folder, new.folder))
        _say("cited sources that changed", sources)
        if sources:
            decisions.append(f"read {len(sources)} cited sources again, the first ones first")
    return decisions


def _installed(package: str, version: str) -> Source | None:
    """The release as it is installed, None if another one is."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version.partition("+")[0] != version:
        return None
    names = tuple(str(file) for file in distribution.files or ())
    return Source(version, Path(str(distribution.locate_file(""))), names, distribution.read_text("METADATA") or "")


def _wheel(package: str, version: str) -> zipfile.ZipFile:
    """A wheel of the package index. Raises SystemExit for a release without one."""
    address = package_index.wheels_in(package_index.page(package)).get(version)
    if address is None:
        raise SystemExit(f"{package} {version} has no wheel on the package index; --wheel FILE reads another one")
    return package_index.open_wheel(address)


def _unpacked(package: str, version: str, wheel: zipfile.ZipFile, folder: str, counts: Iterable[str]) -> Source:
    """Unpacks what facts, members and citations are read from."""
    with wheel:
        names = tuple(wheel.namelist())
        if package in MODULES:
            unpack(wheel, package, Path(folder))
        cited = {path for name in counts if (path := path_in_wheel(name, names)) is not None}
        for name in {*cited, *MEMBERS.get(package, ())} & set(names):
            wheel.extract(name, folder)
        return Source(version, Path(folder), names, metadata_of(wheel))


def move(package: str, version: str, wheel: Path | None, suites: Iterable[str]) -> list[str]:
    """Writes tables, pins and pages, installs the release and runs the suites; what a person has to decide."""
    collect_newer(package, (version, wheel) if wheel else None)
    move_pins(package, version)
    links = {
        name: f"{os.environ.get(name, '')} {wheel.parent.resolve()}".strip()
        for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS")
        if wheel
    }
    failed = _output("setup", "make setup tested", links)
    if failed:
        return [f"pip does not install it beside constraints/cpu.txt: {failed[-1]}"]
    decisions = [f"constraints/cpu.txt has {line} now, which pip added" for line in complete_lock()]
    for command in WRITES:
        decisions += [f"{command} fails: {line}" for line in _output(command, command, links)[-1:]]
    stack = f"{pinned_release('trl')}/{pinned_release('transformers')}"
    for name in suites:
        failed = _output(name, SUITES[name].replace("STACK", stack), links)
        tests = [match[1] for line in failed if (match := _FAILED.match(line))]
        decisions += [f"{name}: {test}" for test in tests[:_MOST] or failed[-1:]]
        if len(tests) > _MOST:
            decisions.append(f"{name}: {len(tests) - _MOST} more in {LOG.relative_to(ROOT)}")
    return decisions


def _output(name: str, command: str, variables: Mapping[str, str]) -> list[str]:
    """Runs a command in words and prints a line about it; its output if it failed, else []."""
    started = time.monotonic()
    ran = subprocess.run(
        [word.replace("|", " or ") for word in command.split()],
        cwd=ROOT,
        env={"OMP_NUM_THREADS": "1", **os.environ, **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    counts = ", ".join(match[1] for line in lines if (match := _COUNTS.search(line)))
    ended = "ended well" if ran.returncode == 0 else f"ended with {ran.returncode}"
    print(f"{name}: {ended} in {time.monotonic() - started:.0f} s{counts and ': '}{counts}", flush=True)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"\n$ {command}\n{ran.stdout}")
    return lines if ran.returncode else []


def _say(title: str, lines: Iterable[str]) -> None:
    shown = list(lines) or ["none"]
    print("\n".join([f"\n{title}:", *(f"  {line}" for line in shown)]), flush=True)


def _changed_files() -> int:
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    return len(changed.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(main())
