"""Fixtures and hooks for all tests."""

import gc
import itertools
import os
import re
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import no_processes, small_disks
from support import warm_python as warm_python_in


def pytest_configure(config: pytest.Config) -> None:
    """Lets tests interrupt the processes they start, even if pytest runs in the background or under nohup.

    There, the shell makes pytest ignore these signals, and child processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not import a file whose own mark -m excludes: many of these import torch."""
    wanted = config.option.markexpr
    if collection_path.suffix != ".py" or " or " in wanted:
        return None
    marks = re.findall(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", collection_path.read_text(), re.MULTILINE)
    return any(f"not {mark}" in wanted.split(" and ") for mark in marks) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs before tests are selected by their markers."""
    no_processes.mark_by_fixtures(items)
    for file in {item.path for item in items if item.get_closest_marker("stack")}:
        if "mark.stack" not in file.read_text():
            raise pytest.UsageError(f"{file} does not say mark.stack, by which `make test-stack` finds its files")


def pytest_collection_finish() -> None:
    """Leaves ten thousand tests out of each garbage collection, five of which pytest makes at its end."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a unit test that starts a process."""
    with no_processes.watched(item):
        return (yield)


_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder; pytest's own fixture looks through all earlier ones for its number: 3 ms each after 4,000 tests."""
    path = tmp_path_factory.getbasetemp() / f"{re.sub(r'[^a-zA-Z0-9_]', '_', request.node.name)[:30]}{next(_numbers)}"
    path.mkdir(mode=0o700)
    return path


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's output and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def grpo_run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs the command as a user does, in this process."""
    from grpo_recipes.cli.main import main

    def run(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of this many KiB for one test; skips the test where mounting is not allowed."""
    reason = small_disks.why_not()
    if reason is not None:
        pytest.skip(reason)
    place = tmp_path / "disk"

    def make(kib: int) -> Path:
        small_disks.mount(place, kib)
        return place

    yield make
    small_disks.unmount(place)


@pytest.fixture
def failing_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that small_disks.fail breaks; skips the test where no loop device can be mounted."""
    reason = small_disks.why_not()
    if reason is not None:
        pytest.skip(reason)
    place = tmp_path / "disk"
    try:
        small_disks.mount_failing(place, tmp_path / "disk.img")
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no loop device: {problem}")
    yield place
    small_disks.unmount(place)


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bin folder with a Python whose trainers start with the libraries imported; see support/warm_python.py."""
    own = tmp_path_factory.getbasetemp()
    with warm_python_in.shared((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "warm") as folder:
        yield folder
