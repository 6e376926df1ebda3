"""Marks every test of this folder, so that leftover processes are found."""

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving_programs import PYTHON
from support.networks import Network
from support.processes import MARK, end_all, launches, leaving_nothing


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks all processes of a test, and fails it if one is left behind."""
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    monkeypatch.setenv("PYTHON", PYTHON)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with leaving_nothing(text, within_s=1.0):  # the keeper ends a moment after the process it watched
        yield text


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
    end_all(started)


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
    end_all(started)


@pytest.fixture
def grpo_run() -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Starts `launch` in a separate process that can receive signals."""
    with launches() as start:
        yield start
