"""Real runs are told to stop, or killed: what could be saved is, and no process stays behind.

Tests that stop a rank, or kill what started it, use the real Python: a fork of the warm one would not notice.
"""

import os
import re
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from signalled_runs import (
    by_hand,
    checkpoint_steps,
    ended,
    in_terminal,
    record,
    shown,
    wait_for_step,
)
from support.processes import marked, nothing_is_left

from grpo_recipes.contract.host.processes import descendants, ranks

pytestmark = pytest.mark.survival
CTRL_C = b"\x03"


@pytest.fixture
def mark() -> Iterator[str]:
    """Marks all processes of a test, and ends what is left."""
    text = uuid.uuid4().hex
    yield text
    for pid in marked(text):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_saved(folder: Path) -> bool:
    """Whether the run says that it was interrupted, with the checkpoint of the step that it stopped at."""
    left = record(folder)
    said = (left["status"], left["exit_code"], left["checkpoint"])
    return said == ("interrupted", 75, str(folder / "checkpoints" / f"checkpoint-{left['step']}")) and checkpoint_steps(
        folder
    ) == [left["step"]]


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_once_saves(processes: int, tmp_path: Path, mark: str, python: str) -> None:
    folder = tmp_path / "run"
    process, keyboard = in_terminal(folder, processes, mark, python)
    wait_for_step(folder, 2)
    os.write(keyboard, CTRL_C)
    assert ended(process, keyboard) == 75
    assert is_saved(folder), record(folder)
    assert nothing_is_left(mark, 0.5)


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_twice_stops_at_once(processes: int, tmp_path: Path, mark: str, is_full: bool) -> None:
    if processes == 1 and not is_full:
        pytest.skip("a launcher and its ranks are enough for a quick look")
    folder = tmp_path / "run"
    process, keyboard = in_terminal(folder, processes, mark)
    wait_for_step(folder, 2)
    shown(keyboard)
    training = ranks(descendants(process.pid))
    assert len(training) == processes
    for pid in training:
        os.kill(pid, signal.SIGSTOP)  # they cannot save now, however quick they are
    for _ in range(2):
        os.write(keyboard, CTRL_C)
        time.sleep(0.5)
    assert ended(process, keyboard) == 75
    assert nothing_is_left(mark, 0.5)
    left = record(folder)
    assert (left["status"], left["exit_code"]) == ("interrupted", 75)
    assert left["message"] == "ended by SIGINT and SIGINT before the worker had saved"


@pytest.mark.parametrize("processes", [1, 2])
def test_nothing_outlives_grpo_run_and_its_supervisor_killed_together(
    processes: int, tmp_path: Path, mark: str, is_full: bool
) -> None:
    if processes == 1 and not is_full:
        pytest.skip("a launcher and its ranks are enough for a quick look")
    folder = tmp_path / "run"
    process, keyboard = in_terminal(folder, processes, mark)
    wait_for_step(folder, 1)
    below = descendants(process.pid)
    (supervisor,) = [each.pid for each in below if any(".supervisor" in word for word in each.argv)]
    os.kill(process.pid, signal.SIGSTOP)  # so that neither of them sees the other one's death
    os.kill(supervisor, signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    assert ended(process, keyboard) == -9
    assert nothing_is_left(mark, 5)


BY_HAND = [
    pytest.param(1, signal.SIGUSR1, "script", 75, True, id="one process, SIGUSR1"),
    pytest.param(2, signal.SIGTERM, "script", 1, True, id="two processes, SIGTERM to their launcher"),
    pytest.param(2, signal.SIGUSR1, "all", 1, True, id="two processes, SIGUSR1 to everything, as Slurm sends it"),
    pytest.param(1, signal.SIGTERM, "script", 75, False, id="one process, SIGTERM"),
    pytest.param(2, signal.SIGINT, "script", 1, False, id="two processes, SIGINT to their launcher"),
    pytest.param(2, signal.SIGTERM, "all", 1, False, id="two processes, SIGTERM to everything"),
]


@pytest.mark.parametrize(("processes", "number", "to", "exit_code", "is_quick"), BY_HAND)
def test_a_launch_by_hand_saves(
    processes: int,
    number: signal.Signals,
    to: str,
    exit_code: int,
    is_quick: bool,
    tmp_path: Path,
    mark: str,
    is_full: bool,
    python: str,
) -> None:
    if not (is_quick or is_full):
        pytest.skip("a signal of each kind is enough for a quick look")
    folder = tmp_path / "run"
    script = by_hand(folder, processes, mark, python)
    wait_for_step(folder, 2)
    for pid in [script.pid] if to == "script" else marked(mark):
        os.kill(pid, number)
    # torchrun makes 1 of every end that is not good; run.json has what became of the run.
    assert ended(script) == exit_code, folder.with_suffix(".log").read_text()
    assert is_saved(folder), folder.with_suffix(".log").read_text()
    assert nothing_is_left(mark, 5)


def test_sigusr1_to_the_launcher_alone_does_no_harm(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "run"
    script = by_hand(folder, 2, mark)
    wait_for_step(folder, 1)
    script.send_signal(signal.SIGUSR1)
    wait_for_step(folder, 3)
    assert script.poll() is None
    script.kill()
    assert nothing_is_left(mark, 5), "processes outlive their killed launcher"
    left = record(folder)
    assert (left["status"], left["exit_code"]) == ("failed", 1)
    assert re.search("ended without an? (error )?message", left["message"])
