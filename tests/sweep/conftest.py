"""Sweeps as a user starts them, with a stand-in trainer."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.warm_python import first_lines
from swept_runs import Swept, command

# For anything but a trainer, the real Python runs and reports this program as sys.executable.
_PYTHON = """{first_lines}import posix, sys
words = sys.argv[1:]
script = next((word for word in words if not word.startswith("-")), "")
if script.endswith("worker/train.py"):
    posix.execv({real!r}, [{real!r}, {trainer!r}, *words[words.index(script):]])
posix.execv({real!r}, [sys.argv[0], *words])
"""
_NVIDIA_SMI = "#!/bin/sh\nfor one in 0 1; do echo GPU-$one, NVIDIA H200, 143771, 9.0, Disabled; done\n"


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose trainers are stand_in_trainer.py."""
    folder = tmp_path_factory.mktemp("stand_in")
    (folder / "bin").mkdir()
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    trainer, real = str(Path(__file__).with_name("stand_in_trainer.py")), sys.executable
    text = _PYTHON.format(first_lines=first_lines(real, "-IS"), real=real, trainer=trainer)
    _program(folder / "bin" / "python", text)
    return folder / "bin" / "python"


@pytest.fixture
def two_gpus(tmp_path: Path) -> Path:
    """A folder with a driver's program that shows two GPUs."""
    folder = tmp_path / "driver"
    folder.mkdir()
    _program(folder / "nvidia-smi", _NVIDIA_SMI)
    return folder


@pytest.fixture
def sweep(stand_in: Path, tmp_path: Path) -> Callable[..., Swept]:
    """Runs `grpo-run sweep` to its end with the stand-in trainer."""

    def run(*words: str, **environment: str) -> Swept:
        return command(stand_in, tmp_path, *words, **environment)

    return run
