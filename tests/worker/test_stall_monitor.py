"""A process that hangs is ended by the program that watches it, and no other process is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_recipes.worker.survival import stall_monitor

ROOT = Path(__file__).parents[2]
HELD = "re.match(r'(a+)+$', 'a' * 60 + 'b')"
# A mutex that is locked already keeps the interpreter's lock too, but is idle.
BLOCKED = "c, mutex = ctypes.PyDLL(None), bytes(64); c.pthread_mutex_lock(mutex); c.pthread_mutex_lock(mutex)"
PROGRAM = """
import ctypes, dataclasses, os, re, signal, sys, time
from pathlib import Path
from grpo_recipes.contract.host.processes import descendants
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.schemas.running import GuardsSection
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.survival import stall_monitor

folder, (rank, seconds, processes) = Path(sys.argv[1]), map(int, sys.argv[2:])
no_progress.UNKNOWN_FACTOR = no_progress.STOP_AFTER = 1
Record(folder, 0).start(resumed=False)
guards = dataclasses.replace(Guards(**GuardsSection().model_dump()), no_progress_seconds=seconds)
stall_monitor.start_program(folder, rank, processes)
def stop_after(times):
    no_progress.STOP_AFTER = times
    monitor.begin()
monitor = stall_monitor.StallMonitor(guards, lambda: 1, None)
monitor.begin()
print("watched by", *(each.pid for each in descendants(os.getpid())), flush=True)
def held():
    {does}
held()
"""


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts a process that does something while it is watched; tmp_path is its run folder."""

    def start(does: str, *, rank: int = 0, seconds: int = 1, processes: int = 1) -> "subprocess.Popen[str]":
        words = map(str, (tmp_path, rank, seconds, processes))
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(does=does), *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def program_beside(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline().removeprefix("watched by "))


def is_gone(pid: int, limit_s: float = 60) -> bool:
    end = time.monotonic() + limit_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    "does",
    [f"time.sleep(1); {HELD.replace('60', '22')}", "for _ in range(60): time.sleep(0.1); monitor.begin()"],
    ids=["it has time", "its steps end"],
)
@pytest.mark.processes
def test_a_process_that_is_well_is_left_alone(
    does: str, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(does, seconds=1 if "begin" in does else 60)
    program = program_beside(process)
    assert process.wait(timeout=180) == 0
    assert is_gone(program)
    assert record(tmp_path)["status"] == "running"
    assert not (tmp_path / "stalled").exists()


@pytest.mark.processes
def test_a_late_step_is_known_to_its_process(started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = started("stop_after(9); time.sleep(5); print(monitor.late_s(), monitor.late_s())")
    program_beside(process)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert output.splitlines()[0].startswith("warning: no_progress at step 1: a step has taken "), output
    late_s, again = output.splitlines()[-1].split()
    assert 5 <= float(late_s) < 20
    assert again == "None"
    assert "a step takes" in (tmp_path / "stalled" / "rank-0.txt").read_text()


@pytest.mark.processes
def test_a_suspended_process_has_not_hung(started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = started("os.kill(os.getpid(), signal.SIGSTOP)", seconds=6)
    program = program_beside(process)
    time.sleep(10)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=180) == 0
    assert is_gone(program)
    assert record(tmp_path)["status"] == "running"
    assert not (tmp_path / "stalled").exists(), "it was not found late either"


@pytest.mark.processes
def test_nor_has_one_of_a_job_that_is_suspended_as_a_whole(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started("os.kill(os.getpid(), signal.SIGSTOP); time.sleep(0.5)", seconds=5)
    program = program_beside(process)
    time.sleep(2)  # it counts from its first look on
    os.kill(program, signal.SIGSTOP)
    time.sleep(7)
    process.send_signal(signal.SIGCONT)
    os.kill(program, signal.SIGCONT)
    assert process.wait(timeout=180) == 0
    assert is_gone(program)
    assert not (tmp_path / "stalled").exists()


@pytest.mark.parametrize(
    ("does", "rank"),
    [
        pytest.param(BLOCKED, 0, id="held"),
        pytest.param(BLOCKED, 1, id="held, another rank"),
        pytest.param(HELD, 0, id="backtracks", marks=pytest.mark.long),
        pytest.param("time.sleep(600)", 0, id="waits"),
    ],
)
@pytest.mark.processes
def test_a_process_that_hangs_is_ended_with_its_stacks(
    does: str, rank: int, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(does, rank=rank)
    program = program_beside(process)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == -signal.SIGKILL, output
    assert is_gone(program)
    message = record(tmp_path)["message"]
    assert (record(tmp_path)["status"], record(tmp_path)["exit_code"]) == ("stopped", 3)
    assert "no_progress: the guard stopped the run at step 1 [GRD006]" in message
    assert f"error: {message}" in output
    stacks = (tmp_path / "stalled" / f"rank-{rank}.txt").read_text()
    assert ' in held\n  File "<string>", line ' in stacks, stacks


@pytest.mark.parametrize(("state", "counts"), [("R", True), ("S", True), ("D", True), ("T", False), ("t", False)])
def test_the_time_counts_in_which_it_could_run(
    state: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_monitor, "process", lambda pid: SimpleNamespace(state=state))
    file = os.memfd_create("stalls")
    os.write(file, b" " * 600)
    watched = stall_monitor._Watched(tmp_path, 0, os.getpid(), file)
    watched.look()  # at its first report
    watched._last -= 1
    watched.look()
    assert (watched._waited >= 1) == counts
    os.close(file)


@pytest.mark.processes
def test_a_killed_process_leaves_no_program(started: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = started("time.sleep(600)")
    program = program_beside(process)
    process.kill()
    assert is_gone(program)
    assert process.wait(timeout=180) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("does", "processes", "is_said"),
    [
        ("os.kill(os.getpid(), 9)", 2, True),
        ("os._exit(1)", 2, True),
        ("os.abort()", 2, True),
        ("import ctypes; ctypes.string_at(0)", 2, True),
        ("import ctypes; ctypes.CDLL(None).pthread_create(ctypes.byref(ctypes.c_ulong()), None,"
         " ctypes.CDLL(None).abort, None); time.sleep(600)", 2, False),
        ("stall_monitor.expect_end(); os.kill(os.getpid(), 9)", 2, False),
        ("os.kill(os.getpid(), 9)", 1, False),
    ],
    ids=["killed", "gone", "aborted", "a segmentation fault", "aborted beside Python", "expected", "alone"],
)  # fmt: skip
@pytest.mark.processes
def test_the_death_of_one_of_several_is_recorded(
    does: str, processes: int, is_said: bool, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(does, rank=1, seconds=60, processes=processes)
    program = program_beside(process)
    output, _ = process.communicate(timeout=180)
    assert is_gone(program)
    left = record(tmp_path)
    assert (left["status"], left["exit_code"]) == (("failed", 1) if is_said else ("running", None)), output
    assert ("process 1 ended without an error message: it was killed" in (left["message"] or "")) == is_said
