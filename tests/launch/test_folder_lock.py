"""One run folder is trained by one run: whoever comes second ends at once, says why, and touches nothing."""

import io
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import wait_until

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_lock import JOB_START, LAUNCHING, SERVING, TRAINING, Busy, hold_lock, holder
from grpo_recipes.launch.local import is_running, launch

MakeFolder = Callable[..., Path]
Begin = Callable[..., "subprocess.Popen[str]"]
ROOT = Path(__file__).parents[2]
# The first moment of a worker: it takes the folder or ends. Then it stays until it may go.
BEGINNING = """
import os, sys, time
from pathlib import Path
from grpo_recipes.worker.run import begin
from grpo_recipes.worker._shared.record import Record

folder, lock, wait_for, child = Path(sys.argv[1]), sys.argv[2], sys.argv[3], len(sys.argv) > 4
while wait_for and not os.path.exists(wait_for): time.sleep(0.001)
code = begin(folder, Record(folder, 0), lock, resumed=True)
if code is None:
    if child and os.fork() == 0: time.sleep(600)
    (folder / f"held.{os.getpid()}").touch()
    while not (folder / "go").exists(): time.sleep(0.01)
sys.exit(code or 0)
"""
# Answers every lock with "no locks available", as a file system without them: a filter of the kernel.
WITHOUT_LOCKS = """
import ctypes, struct
def rule(code, jump, other, value): return struct.pack("HBBI", code, jump, other, value)
rules = b"".join([rule(0x20, 0, 0, 0), rule(0x15, 0, 3, 72), rule(0x20, 0, 0, 24), rule(0x15, 0, 1, 37),
                  rule(0x06, 0, 0, 0x00050000 | 37), rule(0x06, 0, 0, 0x7FFF0000)])
kept = ctypes.create_string_buffer(rules)
program = struct.pack("HL", len(rules) // 8, ctypes.addressof(kept))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
"""


@pytest.fixture
def begin(mark: str) -> Iterator[Begin]:
    """Starts workers that take a folder, or do not get it."""
    started: list[subprocess.Popen[str]] = []

    def start(
        folder: Path, lock: str = TRAINING, wait_for: str = "", *more: str, before: str = ""
    ) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", before + BEGINNING, str(folder), lock, wait_for, *more]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(words, cwd=ROOT, text=True, stdout=pipe, stderr=pipe))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def has_it(folder: Path, process: "subprocess.Popen[str]") -> Callable[[], bool]:
    return (folder / f"held.{process.pid}").exists


def test_of_many_that_start_at_once_one_trains(tmp_path: Path, begin: Begin) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    starters = [begin(folder, TRAINING, str(tmp_path / "start")) for _ in range(8)]
    time.sleep(1.0)
    (tmp_path / "start").touch()
    wait_until(lambda: sum(starter.poll() is not None for starter in starters) == 7, timeout_s=60)
    [winner] = [starter for starter in starters if starter.poll() is None]
    wait_until(has_it(folder, winner))
    for loser in starters:
        if loser is not winner:
            assert loser.communicate()[1].startswith(
                f"error: {folder}: the run is being trained now\n  = because: process {winner.pid} on "
            )
            assert loser.returncode == 2
    assert [path.name for path in folder.glob("held.*")] == [f"held.{winner.pid}"]
    (folder / "go").touch()
    assert winner.wait(timeout=180) == 0


def test_a_killed_run_leaves_no_lock_though_its_child_lives(tmp_path: Path, begin: Begin) -> None:
    first = begin(tmp_path, TRAINING, "", "with a child")
    wait_until(has_it(tmp_path, first))
    [child] = [int(pid) for pid in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()]
    first.kill()
    first.wait(timeout=180)
    try:
        wait_until(lambda: holder(tmp_path) is None)  # a child that was just forked lets go when it first runs
        second = begin(tmp_path)
        wait_until(has_it(tmp_path, second))
        (tmp_path / "go").touch()
        assert second.wait(timeout=180) == 0
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_server_and_its_trainer_hold_the_folder_side_by_side(tmp_path: Path, begin: Begin) -> None:
    both = [begin(tmp_path, lock) for lock in (SERVING, TRAINING)]
    wait_until(lambda: all(has_it(tmp_path, one)() for one in both))
    again = begin(tmp_path, SERVING)
    assert f"process {both[0].pid} on" in again.communicate(timeout=180)[1]
    assert again.returncode == 2


def test_the_second_ends_before_it_imports_anything_heavy_and_touches_nothing(tmp_path: Path, begin: Begin) -> None:
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    (tmp_path / "metrics.jsonl").write_text('{"event": "step", "step": 1}\n')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    program = (
        "import sys; from pathlib import Path; from grpo_recipes.worker.run import train\n"
        "code = train(Path(sys.argv[1]), resume=True)\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules))); sys.exit(code)"
    )
    second = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert (second.returncode, second.stdout) == (2, "[]\n")
    assert f"process {first.pid} on" in second.stderr
    assert ".training.lock since 2" in second.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_grpo_run_leaves_a_folder_alone_that_is_trained_by_hand(run_folder: MakeFolder, begin: Begin) -> None:
    folder = run_folder("note('started')")
    by_hand = begin(folder)
    wait_until(has_it(folder, by_hand))
    assert is_running(str(folder))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(Refusal, match=rf"process {by_hand.pid} on .* holds \.training\.lock since") as refused:
        launch(str(folder), echo=io.StringIO())
    assert refused.value.exit_code == 2
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    assert (folder / "train.log").read_bytes() == b""


def test_a_start_by_hand_between_grpo_run_and_its_worker_keeps_its_record(run_folder: MakeFolder, begin: Begin) -> None:
    folder = run_folder("""
note("started")
while not os.path.exists("taken"): time.sleep(0.02)
sys.exit(1)  # what torchrun makes of a worker that was refused the folder
""")
    echo = io.StringIO()

    def by_hand() -> None:
        wait_until((folder / "started").exists)
        wait_until(has_it(folder, begin(folder)))
        (folder / "taken").touch()

    other = threading.Thread(target=by_hand)
    other.start()
    with pytest.raises(Refusal, match=r"the run is being trained now"):
        launch(str(folder), echo=echo)
    other.join()
    assert json.loads((folder / "run.json").read_text())["status"] == "running"


@pytest.mark.parametrize(("port", "status"), [("7001", "failed"), ("7002", "running")], ids=["own", "another"])
def test_a_rank_of_another_launch_says_nothing_in_the_record(
    port: str, status: str, tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "7001")
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    program = (
        "import sys; from pathlib import Path; from grpo_recipes.worker._shared.record import Record\n"
        "Record(Path(sys.argv[1]), 1).end('failed', 1, 'rank 1 saw it')"
    )
    environment = {**os.environ, "MASTER_PORT": port}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, env=environment, check=True, timeout=180)
    assert json.loads((tmp_path / "run.json").read_text())["status"] == status


def test_a_lock_file_that_is_removed_and_made_anew_is_another_lock(tmp_path: Path, begin: Begin) -> None:
    """The way out where a machine is gone and its file server holds its locks for it."""
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    (tmp_path / TRAINING).unlink()
    second = begin(tmp_path)
    wait_until(has_it(tmp_path, second))
    third = begin(tmp_path)
    assert f"process {second.pid} on" in third.communicate(timeout=180)[1]


def test_the_holder_of_another_machine_may_be_gone_without_letting_go(tmp_path: Path, begin: Begin) -> None:
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    said = json.loads((tmp_path / TRAINING).read_text())
    (tmp_path / TRAINING).write_text(json.dumps({**said, "host": "node7", "pid": 5}))
    with pytest.raises(Busy) as busy, hold_lock(tmp_path, TRAINING):
        pass
    assert "process 5 on node7 holds .training.lock since 2" in str(busy.value)
    assert f"if node7 is gone but still holds the lock: rm {tmp_path / TRAINING}" in str(busy.value)


@pytest.mark.parametrize(
    ("host", "job", "start", "is_taken"),
    [("node7", "41", 0, True), ("node7", "40", 0, False), ("node7", "41", 2, False), (None, "41", 0, False)],
)
def test_a_lock_of_a_lost_machine_is_taken_by_the_next_start_of_the_same_job(
    host: str | None,
    job: str,
    start: int,
    is_taken: bool,
    tmp_path: Path,
    begin: Begin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(JOB_START, f"{job}:{start}")
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    said = json.loads((tmp_path / TRAINING).read_text())
    assert (said["job"], said["start"]) == (job, start)
    (tmp_path / TRAINING).write_text(json.dumps({**said, "host": host or said["host"]}))
    monkeypatch.setenv(JOB_START, "41:1")
    if not is_taken:
        with pytest.raises(Busy), hold_lock(tmp_path, TRAINING):
            pass
        return
    with hold_lock(tmp_path, TRAINING) as lock:
        assert lock.is_in_place()
        assert json.loads((tmp_path / TRAINING).read_text())["start"] == 1
        assert begin(tmp_path).wait(timeout=180) == 2
    assert capsys.readouterr().out == "note: .training.lock was left by start 1 of this job on node7\n"


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="the filter is for x86-64")
def test_a_file_system_without_locks_is_gone_on_with_and_said(tmp_path: Path, begin: Begin) -> None:
    first = begin(tmp_path, TRAINING, before=WITHOUT_LOCKS)
    wait_until(has_it(tmp_path, first))
    (tmp_path / "go").touch()
    out, err = first.communicate(timeout=180)
    assert (first.returncode, err) == (0, "")
    assert out == "note: two runs in this folder would not see each other: .training.lock: No locks available\n"


def test_a_lock_is_let_go_with_its_block(tmp_path: Path, begin: Begin) -> None:
    with hold_lock(tmp_path, LAUNCHING) as lock:
        assert lock.is_in_place()
        assert holder(tmp_path) is None  # oneself is nobody else
        refused = begin(tmp_path, LAUNCHING)
        assert refused.wait(timeout=180) == 2
    winner = begin(tmp_path, LAUNCHING)
    wait_until(has_it(tmp_path, winner))


# A reward function that looks around: closing any descriptor of the file would lose a lock of the process.
LOOKS_AROUND = """
import sys
from pathlib import Path
from grpo_recipes.contract.files.folder_lock import TRAINING, hold, hold_lock
folder = Path(sys.argv[1])
hold(folder, TRAINING)
for path in folder.glob(".*"): path.read_bytes()
(folder / "looked").touch()
sys.stdin.readline()
"""


def test_a_training_holds_its_folder_whatever_its_rewards_read(tmp_path: Path, begin: Begin) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS_AROUND, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE
    ) as first:
        wait_until((tmp_path / "looked").exists)
        second = begin(tmp_path)
        assert second.wait(timeout=180) == 2
        assert holder(tmp_path) is not None
        first.kill()
        first.wait()
        assert holder(tmp_path) is None
        third = begin(tmp_path)
        wait_until(has_it(tmp_path, third))


def test_a_copy_of_hard_links_is_trained_beside_the_folder_it_was_made_of(tmp_path: Path, begin: Begin) -> None:
    one, copy = tmp_path / "one", tmp_path / "copy"
    one.mkdir()
    copy.mkdir()
    for name in (TRAINING, "run.json"):
        (one / name).write_text("{}")
        os.link(one / name, copy / name)
    before = (copy / TRAINING).stat().st_ino
    first = begin(one)
    wait_until(has_it(one, first))
    assert (copy / TRAINING).read_text() == "{}"
    second = begin(copy)
    wait_until(has_it(copy, second))
    assert (copy / TRAINING).stat().st_ino == before  # by now it has this one name
    assert json.loads((one / TRAINING).read_text())["pid"] == first.pid


def test_a_lock_says_nothing_that_steers_a_terminal(tmp_path: Path, begin: Begin) -> None:
    first = begin(tmp_path)
    wait_until(has_it(tmp_path, first))
    said = json.loads((tmp_path / TRAINING).read_text())
    for host in ("node\x1b]0;x\x07", "a\nb", "\u202egpj", "x" * 5000):
        (tmp_path / TRAINING).write_text(json.dumps({**said, "host": host}))
        with pytest.raises(Busy) as busy, hold_lock(tmp_path, TRAINING):
            pass
        assert host not in str(busy.value)
