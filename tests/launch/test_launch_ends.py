"""How a run ends, and what is then in run.json."""

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import wait_until

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.run_record import RunRecord, read_record, write_record
from grpo_recipes.launch.local import is_running, launch

MakeFolder = Callable[..., Path]
GrpoRun = Callable[[Path], "subprocess.Popen[str]"]


def ended(folder: Path) -> RunRecord:
    record = read_record(str(folder))
    assert record is not None
    return record


def test_a_completed_run_says_little_and_exits_0(run_folder: MakeFolder) -> None:
    folder = run_folder("""
event(event="start", max_steps=2)
event(event="step", step=1, max_steps=2, reward=0.25)
event(event="step", step=2, max_steps=2, reward=0.5)
event(event="evaluation", step=2, reward=0.75)
print("all the talk of the libraries")
record(status="completed", exit_code=0, step=2)
""")
    echo = io.StringIO()
    assert launch(str(folder), echo=echo) == 0
    lines = echo.getvalue().splitlines()
    assert lines[0] == f"training in {folder}; the whole output is in train.log there"
    assert lines[1].startswith("step 1/2  reward 0.250")
    assert lines[2].startswith("step 2/2  reward 0.500")
    assert lines[3:] == ["evaluation at step 2  reward 0.75"]
    assert (folder / "train.log").read_text() == "all the talk of the libraries\n"
    assert ended(folder).status == "completed"


@pytest.mark.parametrize(
    ("status", "code", "ranks"),
    [
        ("completed", 0, 2),
        ("failed", 1, 1),
        ("stopped", 3, 2),
        ("interrupted", 75, 1),
        ("interrupted", 75, 2),
    ],
)
def test_the_exit_code_is_the_workers_own(status: str, code: int, ranks: int, run_folder: MakeFolder) -> None:
    folder = run_folder(
        f"""
if os.environ.get("RANK", "0") == "0":
    record(status="{status}", exit_code={code}, step=1)
sys.exit({code})
""",
        ranks=ranks,
    )
    assert launch(str(folder), echo=io.StringIO()) == code
    assert ended(folder).status == status


@pytest.mark.parametrize(
    ("last_words", "message"),
    [
        ("sys.exit(7)", "it ended with exit code 7"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it was killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "it was killed by SIGKILL (out of memory?)"),
        ("sys.exit(0)", "it ended with exit code 0"),
        (
            'print("failed (exitcode: -9) local_rank: 1 (pid: 5) of binary"); sys.exit(1)',
            "rank 1 was killed by SIGKILL (out of memory?)",
        ),
    ],
    ids=["exit code", "signal", "killed", "exit 0", "rank"],
)
def test_a_worker_that_dies_without_a_word_has_failed(last_words: str, message: str, run_folder: MakeFolder) -> None:
    folder = run_folder(f'record(status="running", step=4, own_key=5, checkpoint="checkpoints/4")\n{last_words}')
    assert launch(str(folder), echo=io.StringIO()) == 1
    record = ended(folder)
    assert (record.status, record.exit_code, record.step) == ("failed", 1, 4)
    assert record.message == f"the worker ended without a message: {message}"
    assert json.loads((folder / "run.json").read_text())["own_key"] == 5


def test_the_record_of_an_earlier_attempt_is_not_this_ones(run_folder: MakeFolder) -> None:
    folder = run_folder("sys.exit(9)")
    write_record(str(folder), RunRecord(status="completed", exit_code=0, step=10))
    assert launch(str(folder), echo=io.StringIO()) == 1
    assert ended(folder).status == "failed"


def test_the_metrics_of_an_earlier_attempt_are_not_shown_again(run_folder: MakeFolder) -> None:
    folder = run_folder("""
event(event="step", step=6, max_steps=6)
record(status="completed", exit_code=0, step=6)
""")
    (folder / "metrics.jsonl").write_text('{"event": "step", "step": 5, "max_steps": 6, "time": 1.5}\n')
    echo = io.StringIO()
    assert launch(str(folder), echo=echo) == 0
    assert echo.getvalue().splitlines()[1:] == ["step 6/6"]


@pytest.mark.parametrize(("resume", "arguments"), [(False, "[]"), (True, "['--resume']")])
def test_a_resumed_run_says_so_to_the_trainer(resume: bool, arguments: str, run_folder: MakeFolder) -> None:
    folder = run_folder('print(sys.argv[1:]); record(status="completed", exit_code=0, step=1)')
    assert launch(str(folder), resume=resume, echo=io.StringIO()) == 0
    assert (folder / "train.log").read_text() == arguments + "\n"


def test_ranks_that_torch_stopped_after_a_crash_were_not_interrupted(run_folder: MakeFolder) -> None:
    folder = run_folder("""
record(status="interrupted", exit_code=75, step=3)
print("E1120 api.py:1003] failed (exitcode: 1) local_rank: 1 (pid: 77) of binary: python")
sys.exit(1)
""")
    assert launch(str(folder), echo=io.StringIO()) == 1
    assert ended(folder).message == "the worker ended without a message: rank 1 ended with exit code 1"


WATCHDOG = (
    "[rank1]:[E606 09:10:08.365 ProcessGroupNCCL.cpp:2197] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group "
    "watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLGATHER, Timeout(ms)=600000) ran for 600004 milliseconds before timing out."
)


@pytest.mark.parametrize(("said", "code"), [(f"print({WATCHDOG!r})", 75), ("", 1)], ids=["the watchdog", "a crash"])
def test_a_rank_that_the_watchdog_aborted_lost_the_others(said: str, code: int, run_folder: MakeFolder) -> None:
    folder = run_folder(f"""
why = {{"rule": "", "severity": "error", "message": "no answer from the other processes for 600 s"}}
record(status="interrupted", exit_code=75, step=3, message=why["message"], findings=[why])
{said}
print("E1120 api.py:1003] failed (exitcode: -6) local_rank: 1 (pid: 77) of binary: python")
sys.exit(1)
""")
    assert launch(str(folder), echo=io.StringIO()) == code
    lost = "no answer from the other processes for 600 s"
    assert ended(folder).message == (
        lost if said else "the worker ended without a message: rank 1 was killed by SIGABRT"
    )


def test_what_nccl_lacks_ends_in_failure_whatever_the_others_wrote(run_folder: MakeFolder) -> None:
    small = WATCHDOG.partition("[Rank 1] Watchdog")[0] + (
        "NCCL error: unhandled system error, NCCL version 2.21.5\nncclSystemError: System call failed\nLast error:\n"
        "Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)"
    )
    folder = run_folder(f"""
record(status="interrupted", exit_code=75, step=0)
print({small!r})
print("E1120 api.py:1003] failed (exitcode: -6) local_rank: 1 (pid: 77) of binary: python")
sys.exit(1)
""")
    assert launch(str(folder), echo=io.StringIO()) == 1
    record = ended(folder)
    assert record.status == "failed" and record.message.startswith("NCCL got no shared memory")
    assert "--shm-size" in record.findings[0]["fix"]


@pytest.mark.parametrize(("exit_code", "code", "status"), [(-6, 75, "interrupted"), (-9, 1, "failed")])
def test_what_the_watchdog_printed_is_why_its_process_ended(
    exit_code: int, code: int, status: str, run_folder: MakeFolder
) -> None:
    folder = run_folder(f"""
record(status="running", step=3)
print({WATCHDOG!r})
print("E1120 api.py:1003] failed (exitcode: {exit_code}) local_rank: 1 (pid: 77) of binary: python")
sys.exit(1)
""")
    (folder / "train.log").write_text(WATCHDOG.replace("600000", "500000"))
    assert launch(str(folder), echo=io.StringIO()) == code
    record = ended(folder)
    assert (record.status, record.exit_code) == (status, code)
    if code == 75:
        assert record.message.startswith("no answer from the other processes for 600 s, reported by torch's watchdog")
        assert record.findings[0]["fix"].startswith("start all machines again with --resume")


def test_a_failure_shows_the_end_of_the_log_without_secrets(
    run_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "correct-horse-battery")
    folder = run_folder("""
for line in range(50): print(f"line {line}")
print("login with correct-horse-battery")
record(status="failed", exit_code=1, message="ValueError: no")
sys.exit(1)
""")
    (folder / "train.log").write_text("from an earlier attempt\n" * 50)
    echo = io.StringIO()
    assert launch(str(folder), echo=echo) == 1
    lines = echo.getvalue().splitlines()
    assert lines[1] == f"the last 30 lines of {folder / 'train.log'}:"
    assert lines[2:] == [*(f"  line {line}" for line in range(21, 50)), "  login with <redacted>"]


def test_one_folder_is_trained_by_one_at_a_time(run_folder: MakeFolder, grpo_run: GrpoRun) -> None:
    folder = run_folder("""
note("started")
while not os.path.exists("go"): time.sleep(0.02)
record(status="completed", exit_code=0, step=1)
""")
    assert not is_running(str(folder))
    first = grpo_run(folder)
    wait_until((folder / "started").exists)
    assert is_running(str(folder))
    with pytest.raises(Refusal, match="is being trained now"):
        launch(str(folder), echo=io.StringIO())
    (folder / "go").touch()
    assert first.wait(timeout=180) == 0
    assert not is_running(str(folder))


def test_a_folder_without_launch_sh_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="not a run folder"):
        launch(str(tmp_path), echo=io.StringIO())
    assert list(tmp_path.iterdir()) == []
