"""A run folder that is full, read-only, broken, removed or replaced: one clear end, and nothing of it corrupt."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from launched_programs import LAUNCH_SH, PRELUDE
from support import small_disks
from support.processes import wait_until

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.run_record import RunRecord, amend_record, read_record
from grpo_recipes.launch.local import launch

Disk = Callable[[int], Path]
ROOT = Path(__file__).parents[2]
# A trainer that writes as the real one does: its record, its metrics, and what it says when that fails.
WRITING = f"""
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from grpo_recipes.contract.files.folder_lock import TRAINING
from grpo_recipes.worker.run import begin
from grpo_recipes.worker.survival.folder_faults import explain_fault
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record

folder = Path.cwd()
own = Record(folder, 0)
code = begin(folder, own, TRAINING, resumed="--resume" in sys.argv)
if code is not None: sys.exit(code)
def failed(problem):
    message = explain_fault(problem, own.same)
    own.end("failed", 1, message)
    print(f"error: {{message}}", flush=True)
    sys.exit(1)
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.02)
"""
STEPS = """
log = MetricsLog(folder / "metrics.jsonl", resume_step=None)
note(f"{OUT}/ready")
try:
    for step in range(1, 100_000):
        log.write("step", step, talk="x" * 4000)
        own.update(step=step)
        if step > 20: time.sleep(0.01)
except Exception as problem: failed(problem)
"""


def make(folder: Path, trainer: str) -> Path:
    """A run folder at a place of its own, with a trainer that writes as the real one; OUT: a folder elsewhere."""
    (folder / "worker").mkdir(parents=True)
    out = folder.parent.parent
    (folder / "worker" / "train.py").write_text(f"OUT = {str(out)!r}\n{PRELUDE}{WRITING}{trainer}")
    (folder / "launch.sh").write_text(LAUNCH_SH % "-u worker/train.py")
    (folder / "plan.json").write_text("{}\n")
    return folder


def when(ready: Path, act: Callable[[], object]) -> None:
    """Acts in another thread as soon as a file is there."""

    def wait() -> None:
        wait_until(ready.exists, timeout_s=30)
        act()

    threading.Thread(target=wait).start()


def refused_with_1(folder: Path) -> str:
    """All that a launch says which cannot write down how the run ended."""
    echo = io.StringIO()
    with pytest.raises(Refusal) as refused:
        launch(str(folder), echo=echo)
    assert refused.value.exit_code == 1
    return echo.getvalue() + str(refused.value)


def ended(folder: Path) -> RunRecord:
    record = read_record(str(folder))
    assert record is not None
    return record


def temporary(folder: Path) -> list[str]:
    """What a writer may have left behind."""
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".writing") or "probe" in path.name)


def test_a_log_that_fills_the_disk_does_not_stop_the_run(small_disk: Disk) -> None:
    folder = make(
        small_disk(512) / "run",
        """
for line in range(40_000): print(f"line {line} of a very talkative library")
note(f"{OUT}/reached_the_end")
own.end("completed", 0)
""",
    )
    said = refused_with_1(folder)
    assert (folder.parents[1] / "reached_the_end").exists()
    assert "train.log lacks" in said
    assert "bytes of the output: No space left on device" in said
    assert "run.json cannot be written, and still says running: No space left on device" in said
    assert (folder / "train.log").read_text().startswith("line 0 of")
    assert temporary(folder) == []


def test_a_log_goes_on_when_there_is_room_again(small_disk: Disk) -> None:
    folder = make(
        small_disk(512) / "run",
        """
print("before", flush=True)
while os.path.getsize("train.log") < 7: time.sleep(0.01)
with open("ballast", "wb", buffering=0) as file:
    try:
        while file.write(bytes(1 << 12)): pass
    except OSError: pass
for line in range(200): print("x" * 100, flush=True)
time.sleep(0.3)
os.unlink("ballast")
print("after", flush=True)
own.end("completed", 0)
""",
    )
    assert launch(str(folder), echo=io.StringIO()) == 0
    lines = (folder / "train.log").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "bytes of output are missing here: No space left on device]" in lines[-2]


def test_a_full_disk_is_the_end_that_grpo_run_tells(small_disk: Disk) -> None:
    disk = small_disk(512)
    folder = make(disk / "run", STEPS)
    said = refused_with_1(folder)
    assert "cannot be written: no space left on device; " in said
    assert " MiB are free there\n    = because: OSError: [Errno 28] No space left on device" in said
    assert "  = fix: free some space, then grpo-run RUNDIR --resume: it starts over, since nothing was saved" in said
    assert "  = because: run.json cannot be written, and still says running: No space left on device" in said
    assert "Traceback" not in said
    assert ended(folder).status == "running"
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["event"] == "step"
    assert (folder / "metrics.jsonl").read_bytes().endswith(b"\n")
    assert temporary(folder) == []


def test_a_folder_that_becomes_read_only_is_told_where_it_can_be(small_disk: Disk) -> None:
    disk = small_disk(2048)
    folder = make(disk / "run", STEPS)
    when(disk.parent / "ready", lambda: small_disks.make_read_only(disk))
    said = refused_with_1(folder)
    assert f"{folder}: the worker ended without a message: it ended with exit code 1\n" in said
    assert "  = because: run.json cannot be written, and still says running: Read-only" in said
    assert "error: run.json of the run folder cannot be written: read-only file system" in said
    assert "= fix: make it writable, then" in said
    assert "Traceback" not in said
    assert ended(folder).status == "running"
    assert temporary(folder) == []


def test_a_disk_that_fails_is_told_though_nothing_can_be_written(failing_disk: Path) -> None:
    folder = make(failing_disk / "run", STEPS)
    when(failing_disk.parent / "ready", lambda: small_disks.fail(failing_disk))
    said = refused_with_1(folder)
    assert "cannot be written: input/output error" in said
    assert "train.log lacks" in said
    assert "run.json cannot be written" in said
    assert "Traceback" not in said


def test_a_removed_folder_ends_the_run_and_does_not_come_back(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs" / "run", STEPS)

    def remove() -> None:
        while folder.exists():  # the trainer writes in between
            shutil.rmtree(folder, ignore_errors=True)

    when(tmp_path / "ready", remove)
    said = refused_with_1(folder)
    assert f"{folder}: the run folder is gone or was replaced\n  = because: it was removed, renamed or" in said
    assert "Traceback" not in said
    assert not folder.exists()


def test_a_folder_in_its_place_is_left_as_it_is(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs" / "run", STEPS)
    other = make(tmp_path / "runs" / "other", "")
    (other / "plan.json").write_text('{"name": "other"}')  # two that are made in one tick of the clock have one time
    (other / "run.json").write_text('{"run": 1, "status": "running", "step": 77}')
    before = {path.name: path.read_bytes() for path in other.iterdir() if path.is_file()}

    def replace() -> None:
        os.rename(folder, tmp_path / "away")
        os.rename(other, folder)

    when(tmp_path / "ready", replace)
    assert "was removed, renamed or replaced" in refused_with_1(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert "the run folder was replaced" in (tmp_path / "away" / "train.log").read_text()


def test_a_folder_that_cannot_be_written_is_refused_before_the_start(small_disk: Disk) -> None:
    folder = make(small_disk(512) / "run", "own.end('completed', 0)")
    small_disks.make_read_only(folder.parent)
    with pytest.raises(Refusal) as refused:
        launch(str(folder), resume=True, echo=io.StringIO())
    assert refused.value.exit_code == 2
    assert str(refused.value).startswith(
        f"{folder}: the run folder cannot be written\n  = because: Read-only file system\n  = fix: make it writable"
    )
    done = subprocess.run(
        ["bash", str(folder / "launch.sh"), "--resume"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: .training.lock of the run folder cannot be written: read-only file system")
    assert "Traceback" not in done.stderr


def test_a_damaged_record_is_set_aside_with_a_word(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs" / "run", 'own.end("completed", 0)')
    for damage in (b"", b'{"status": "interr', b"\0" * 300, b"\xff\xfe\x00garbage", b"[]"):
        (folder / "run.json").write_bytes(damage)
        (folder / "train.log").unlink(missing_ok=True)
        assert launch(str(folder), resume=True, echo=io.StringIO()) == 0
        assert ended(folder).status == "completed"
        assert (folder / "run.json.damaged").read_bytes() == damage
        assert (folder / "train.log").read_text().startswith("run.json is damaged and was started over, without")


def test_a_record_with_values_of_another_kind_keeps_the_others(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs" / "run", 'own.update_evaluation(after={}); own.end("completed", 0)')
    (folder / "run.json").write_text(
        '{"run": 1, "status": "running", "evaluation": 5, "checkpoint": "c", "guards": []}'
    )
    assert launch(str(folder), resume=True, echo=io.StringIO()) == 0
    assert (ended(folder).checkpoint, ended(folder).evaluation) == ("c", {"after": {}})


def test_what_killed_writers_left_is_gone_at_the_next_start(tmp_path: Path) -> None:
    folder = make(tmp_path / "runs" / "run", 'own.end("completed", 0)')
    old, young = (folder / f".run.json.{pid}.writing" for pid in (4711, 4712))
    for left in (old, young):
        left.write_text("{")
    os.utime(old, (0, 0))
    assert launch(str(folder), resume=True, echo=io.StringIO()) == 0
    assert temporary(folder) == [young.name]


def test_a_record_that_cannot_be_amended_stays_as_it_was(small_disk: Disk) -> None:
    disk = small_disk(64)
    (disk / "run.json").write_text('{"run": 1, "status": "running"}\n')
    small_disks.fill(disk)
    with pytest.raises(OSError, match="No space left"):
        amend_record(str(disk), {"message": "x" * 10_000})
    assert (disk / "run.json").read_text() == '{"run": 1, "status": "running"}\n'
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "run.json"]
