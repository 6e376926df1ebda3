"""Real runs of one small recipe that are sent signals, and what is left of them."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.processes import MARK, ROOT

LIMIT_S = 400
VALUES: dict[str, object] = {
    "training.max_steps": 60,
    "training.prompts_per_step": 4,
    "training.per_device_train_batch_size": 16,
    "training.save_steps": 60,
    "evaluation": None,
}
RECIPE = "recipes/quickstart.yaml"


def _grpo_run(folder: Path, processes: int, python: str, *more: str) -> list[str]:
    values = {**VALUES, "launch.num_processes": processes}
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return [python, "-m", "grpo_recipes.cli.main", RECIPE, "--out", str(folder), *options, *more]


def _environment(mark: str, python: str) -> dict[str, str]:
    small = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHON": python}
    return {**os.environ, **small, MARK: mark}


def in_terminal(
    folder: Path, processes: int, mark: str, python: str = sys.executable
) -> tuple["subprocess.Popen[bytes]", int]:
    """grpo-run in the foreground of a terminal of its own, and the other end of that, where keys are typed."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_TERMINAL, *_grpo_run(folder, processes, python)],
        cwd=ROOT,
        env=_environment(mark, python),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    return process, keyboard


# The terminal of its standard input becomes the one that its session is controlled from.
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def by_hand(folder: Path, processes: int, mark: str, python: str = sys.executable) -> "subprocess.Popen[bytes]":
    """launch.sh of a new run folder, as a person starts it, without grpo-run above it."""
    command, environment = _grpo_run(folder, processes, python, "--dry-run"), _environment(mark, python)
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    with folder.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            ["bash", "launch.sh"], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def wait_for_step(folder: Path, step: int) -> None:
    """Until so many steps are told of."""
    metrics, end = folder / "metrics.jsonl", time.monotonic() + LIMIT_S
    while not metrics.exists() or sum('"event": "step"' in line for line in metrics.open()) < step:
        assert time.monotonic() < end, "waited in vain for a step"
        time.sleep(0.05)


def ended(process: "subprocess.Popen[bytes]", keyboard: int | None = None) -> int:
    """The exit code; what a terminal shows meanwhile is read, or it would be full."""
    end = time.monotonic() + LIMIT_S
    while process.poll() is None:
        assert time.monotonic() < end, "it does not end"
        if keyboard is not None:
            shown(keyboard)
        time.sleep(0.05)
    return process.returncode


def shown(keyboard: int) -> str:
    """What is there to be read on a terminal."""
    os.set_blocking(keyboard, False)
    with contextlib.suppress(OSError):
        return os.read(keyboard, 1 << 16).decode(errors="replace")
    return ""


def record(folder: Path) -> dict[str, Any]:
    """run.json."""
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the checkpoints that are there."""
    return sorted(int(path.name.partition("-")[2]) for path in (folder / "checkpoints").glob("checkpoint-*"))
