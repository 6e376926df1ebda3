"""Every test of this folder is marked, so that a process that is left behind is found."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving_programs import MARK, PYTHON, marked, wait_until
from two_networks import Network


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks all processes of a test, and fails it if one is left behind."""
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    monkeypatch.setenv("PYTHON", PYTHON)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield text
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not marked(text), 1.0)  # the keeper ends a moment after what it watched
    left = marked(text)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.fixture
def by_hand() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts launch.sh as a user does, without grpo-run."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            ["bash", str(folder / "launch.sh"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        started.append(process)
        return process

    yield start
    _end(started)


HERE = Network()


@pytest.fixture
def machine() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a program of a run folder's worker as launch.sh does on one of several machines."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, program: str, *arguments: str, network: Network = HERE) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*network.prefix, PYTHON, "-u", f"worker/{program}", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    _end(started)


@pytest.fixture
def grpo_run() -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Starts `launch` in a process of its own, which can be sent signals."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> "subprocess.Popen[str]":
        program = "import sys; from grpo_recipes.launch.local import launch; sys.exit(launch(sys.argv[1]))"
        root = Path(__file__).parents[2]
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], cwd=root, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    _end(started)


def _end(started: list["subprocess.Popen[str]"]) -> None:
    for process in started:
        with process:
            process.kill()
