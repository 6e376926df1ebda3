"""Marks every test of this folder, so that leftover processes are found."""

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launched_programs import LAUNCH_SH, LAUNCHER, PRELUDE
from support.processes import MARK, launches, leaving_nothing


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks all processes of a test, and fails it if one is left behind."""
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    with leaving_nothing(text, within_s=0.0):
        yield text


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run folder with this program as its trainer, started directly or by a launcher of two."""

    def make(trainer: str, *, ranks: int = 1) -> Path:
        folder = tmp_path / "run"
        (folder / "worker").mkdir(parents=True)
        (folder / "worker" / "train.py").write_text(PRELUDE + trainer)
        (folder / "launcher.py").write_text(LAUNCHER)
        (folder / "launch.sh").write_text(LAUNCH_SH % ("-u worker/train.py" if ranks == 1 else "launcher.py"))
        return folder

    return make


@pytest.fixture
def grpo_run() -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Starts `launch` in a separate process that can receive signals."""
    with launches() as start:
        yield start
