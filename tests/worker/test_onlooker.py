"""The program beside each process ends one that cannot be ended from inside, and no other."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import Changes

ROOT = Path(__file__).parents[2]
HELD = "alive(1.0); re.match(r'(a+)+$', 'a' * 60 + 'b')"
PROGRAM = """
import os, re, signal, sys, time
from pathlib import Path
from grpo_recipes.worker.survival.looked_on import LookedOn
from grpo_recipes.worker._shared.record import Record

folder, world_size = Path(sys.argv[1]), int(sys.argv[2])
{first}
Record(folder, 0).start(resumed=False)
looked_on = LookedOn(folder, world_size - 1, world_size)
def alive(left_s):
    looked_on.alive(left_s, 7, "a step")
print("looked on by", looked_on._program.pid, flush=True)
def held():
    {does}
held()
"""


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts a process that does something beside its onlooker; tmp_path is its run folder."""

    def start(does: str, *, world_size: int = 1, path: str = "", first: str = "") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(does=does, first=first), str(tmp_path), str(world_size)],
            cwd=ROOT,
            env={**os.environ, "PATH": path or os.environ["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def record(folder: Path) -> Changes:
    found: Changes = json.loads((folder / "run.json").read_text())
    return found


def onlooker(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline().split()[-1])


def is_gone(pid: int, limit_s: float = 20) -> bool:
    end = time.monotonic() + limit_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    "does",
    [
        "alive(60.0); time.sleep(3)",
        "alive(None); time.sleep(3)",
        "[(alive(1.0), time.sleep(0.2)) for _ in range(15)]",
    ],
    ids=["it has time", "nothing is expected of it", "its threads run"],
)
@pytest.mark.processes
def test_a_process_that_is_well_is_left_alone(
    does: str, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(f"{does}; looked_on.bye()")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert is_gone(int(output.split()[-1]))
    assert record(tmp_path)["status"] == "running"
    assert not (tmp_path / "stalled").exists()


@pytest.mark.processes
def test_a_suspended_process_has_not_hung(started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = started("alive(1.0); os.kill(os.getpid(), signal.SIGSTOP); looked_on.bye()")
    onlooker(process)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=60) == 0
    assert record(tmp_path)["status"] == "running"


@pytest.mark.parametrize("world_size", [1, 2], ids=["alone", "one of two"])
@pytest.mark.processes
def test_a_held_interpreter_is_ended_with_its_stacks(
    world_size: int, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(HELD, world_size=world_size, path="/nonexistent")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, output
    assert is_gone(int(output.split()[3]))
    message = record(tmp_path)["message"]
    assert (record(tmp_path)["status"], record(tmp_path)["exit_code"]) == ("stopped", 3)
    assert "no_progress: the guard stopped the run at step 7 [GRD006]" in message
    assert f"error: {message}" in output
    stacks = (tmp_path / "stalled" / f"rank-{world_size - 1}.txt").read_text()
    assert ' in held\n  File "<string>", line ' in stacks, stacks


@pytest.mark.skipif(shutil.which("py-spy") is None, reason="py-spy is not installed")
def test_py_spy_adds_what_it_sees(started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    started(HELD).communicate(timeout=120)
    stacks = (tmp_path / "stalled" / "rank-0.txt").read_text()
    assert "held (<string>:" in stacks and "sre_ucs" in stacks, stacks


@pytest.mark.parametrize(
    ("does", "world_size", "said"),
    [
        ("os.kill(os.getpid(), 9)", 2, "process 1 ended without a word"),
        ("os._exit(1)", 2, "process 1 ended without a word"),
        ("looked_on.asked(); os.kill(os.getpid(), 9)", 2, None),
        ("looked_on.bye(); os._exit(1)", 2, None),
        ("os.kill(os.getpid(), 9)", 1, None),
    ],
    ids=["killed", "gone", "asked to end before", "said why itself", "alone: who started it sees that"],
)
@pytest.mark.processes
def test_the_death_of_one_of_several_is_written_down(
    does: str, world_size: int, said: str | None, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(does, world_size=world_size)
    pid = onlooker(process)
    process.wait(timeout=60)
    assert is_gone(pid)
    left = record(tmp_path)
    assert (left["status"], left["exit_code"]) == (("failed", 1) if said else ("running", None))
    assert (said or "") in (left["message"] or "")


WATCHDOG = (
    "[rank1]:[E606 09:10:08.365 ProcessGroupNCCL.cpp:2197] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group "
    "watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLGATHER, Timeout(ms)=600000) ran for 600004 milliseconds before timing out."
)
TO_A_FILE = "os.dup2(os.open(folder / '{}', os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)"
ABORTS = f"os.write(2, {(WATCHDOG + chr(10)).encode()!r}); os.abort()"


@pytest.mark.parametrize("log", ["train.log", "mine.txt"], ids=["the log of the folder", "a file of its own"])
@pytest.mark.processes
def test_a_process_that_nccls_watchdog_ended_was_interrupted(
    log: str, started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / log).write_text("from an earlier start\n")
    process = started(ABORTS, world_size=2, first=TO_A_FILE.format(log))
    pid = onlooker(process)
    assert process.wait(timeout=60) == -signal.SIGABRT
    assert is_gone(pid)
    left = record(tmp_path)
    assert (left["status"], left["exit_code"]) == ("interrupted", 75)
    assert left["message"].startswith("no answer from the other processes for 600 s, by the word of torch's watchdog")
    assert left["findings"][0]["fix"].startswith("start all machines again with --resume")


@pytest.mark.processes
def test_the_watchdog_of_an_earlier_start_is_no_reason(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text(f"{WATCHDOG}\n")
    process = started("os.abort()", world_size=2, first=TO_A_FILE.format("train.log"))
    assert is_gone(onlooker(process))
    assert record(tmp_path)["status"] == "failed"


@pytest.mark.processes
def test_another_process_that_failed_meanwhile_is_the_reason(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    process = started(ABORTS, world_size=2, first=TO_A_FILE.format("train.log"))
    pid = onlooker(process)
    process.wait(timeout=60)
    content = record(tmp_path) | {"status": "failed", "exit_code": 1, "message": "reward mine raised"}
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert is_gone(pid)
    assert record(tmp_path)["message"] == "reward mine raised"
