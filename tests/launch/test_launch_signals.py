"""Signals, and processes that are killed: nothing is lost that could be saved, and nothing is left behind."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import marked, wait_until

from grpo_recipes.contract.run_record import read_record

MakeFolder = Callable[..., Path]
GrpoRun = Callable[[Path], "subprocess.Popen[str]"]

# Counts its signals, saves when told to, and has a child with its own command line, as a data loader is.
SAVING = """
rank = os.environ.get("RANK", "0")
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append("TERM"))
signal.signal(signal.SIGINT, lambda *_: got.append("INT"))
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: note(f"child{rank}.told"))
    while True: time.sleep(0.05)
note(f"ready{rank}", os.getpid())
while not got: time.sleep(0.02)
time.sleep(0.1)
os.kill(child, signal.SIGKILL)
note(f"saved{rank}", " ".join(got))
if rank == "0": record(status="interrupted", exit_code=75, step=5, checkpoint="checkpoints/5")
sys.exit(75)
"""
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
record(status="running", step=5, checkpoint="checkpoints/4")
note("ready" + os.environ.get("RANK", "0"), os.getpid())
while True: time.sleep(0.05)
"""
LONELY = """
note("ready" + os.environ.get("RANK", "0"), f"{os.getpid()} {os.getppid()}")
while True: time.sleep(0.05)
"""


def ready(folder: Path, ranks: int) -> Callable[[], bool]:
    return lambda: all((folder / f"ready{rank}").exists() for rank in range(ranks))


@pytest.mark.parametrize(("ranks", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM), (2, signal.SIGUSR1)], ids=str)
def test_a_first_signal_lets_each_rank_save_once(
    ranks: int, number: signal.Signals, run_folder: MakeFolder, grpo_run: GrpoRun
) -> None:
    folder = run_folder(SAVING, ranks=ranks)
    process = grpo_run(folder)
    wait_until(ready(folder, ranks))
    process.send_signal(number)
    _, talk = process.communicate(timeout=180)
    assert process.returncode == 75
    assert [(folder / f"saved{rank}").read_text() for rank in range(ranks)] == ["TERM"] * ranks
    assert not (folder / "child0.told").exists()
    assert f"{number.name}: saving and stopping; a second signal kills the run" in talk
    record = read_record(str(folder))
    assert record is not None
    assert (record.status, record.step, record.checkpoint) == ("interrupted", 5, "checkpoints/5")


def test_a_second_signal_kills_what_does_not_listen(run_folder: MakeFolder, grpo_run: GrpoRun, mark: str) -> None:
    folder = run_folder(DEAF, ranks=2)
    process = grpo_run(folder)
    wait_until(ready(folder, 2))
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("training in")
    assert process.stderr.readline().startswith("SIGINT: saving")
    assert len(marked(mark)) > 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=180)
    assert process.returncode == 75
    assert marked(mark) == []
    record = read_record(str(folder))
    assert record is not None
    assert (record.status, record.exit_code, record.step) == ("interrupted", 75, 5)
    assert record.message == "ended by SIGINT and SIGTERM before the worker had saved"


def test_an_ignored_hangup_stays_ignored(run_folder: MakeFolder, grpo_run: GrpoRun) -> None:
    folder = run_folder("""
note("ready0")
while not os.path.exists("go"): time.sleep(0.02)
record(status="completed", exit_code=0, step=1)
""")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = grpo_run(folder)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(ready(folder, 1))
    process.send_signal(signal.SIGHUP)
    (folder / "go").touch()
    assert process.wait(timeout=180) == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_nothing_outlives_a_killed_grpo_run(ranks: int, run_folder: MakeFolder, grpo_run: GrpoRun, mark: str) -> None:
    folder = run_folder(DEAF, ranks=ranks)
    process = grpo_run(folder)
    wait_until(ready(folder, ranks))
    process.kill()
    process.communicate(timeout=180)
    wait_until(lambda: marked(mark) == [], timeout_s=5)


@pytest.mark.parametrize("ranks", [1, 2])
def test_nothing_outlives_a_killed_supervisor(ranks: int, run_folder: MakeFolder, grpo_run: GrpoRun, mark: str) -> None:
    folder = run_folder(DEAF, ranks=ranks)
    process = grpo_run(folder)
    wait_until(ready(folder, ranks))
    supervisors = [pid for pid in marked(mark) if b".supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(supervisors) == 1
    os.kill(supervisors[0], signal.SIGKILL)
    process.communicate(timeout=180)
    assert process.returncode == 1
    assert marked(mark) == []


def test_ranks_do_not_outlive_their_killed_launcher(run_folder: MakeFolder, grpo_run: GrpoRun, mark: str) -> None:
    folder = run_folder(LONELY, ranks=2)
    process = grpo_run(folder)
    wait_until(ready(folder, 2))
    launcher = int((folder / "ready0").read_text().split()[1])
    os.kill(launcher, signal.SIGKILL)
    process.communicate(timeout=180)
    assert process.returncode == 1
    assert marked(mark) == []
    record = read_record(str(folder))
    assert record is not None
    assert record.message == "the worker ended without a message: it was killed by SIGKILL (out of memory?)"
