"""`grpo-run watch`: a run that another process trains is shown to its end, and nothing of it is touched."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_recipe import STACK
from support.processes import MARK, leaving_nothing, wait_until

from grpo_recipes.cli.commands import watch
from grpo_recipes.contract.integrity.run_folder import record_text
from grpo_recipes.launch.display import PlainProgress

ROOT = Path(__file__).parents[2]
TRAINER = """
import json, os, sys, time
def record(**keys):
    with open("new", "w") as file: json.dump({"run": 1, "started": "2026-01-01T00:00:00+00:00", **keys}, file)
    os.replace("new", "run.json")
def event(**keys):
    with open("metrics.jsonl", "a") as file: file.write(json.dumps({"time": time.time(), **keys}) + chr(10))
record(status="running", step=0)
event(event="start", step=0, max_steps=2)
event(event="step", step=1, reward=0.25)
while not os.path.exists("go"): time.sleep(0.05)
event(event="step", step=2, reward=0.75)
record(status="stopped", exit_code=3, step=2, max_steps=2, message="a guard")
sys.exit(3)
"""
LAUNCH_SH = '#!/usr/bin/env bash\ncd "$(dirname "${BASH_SOURCE[0]}")"\nexec "$PYTHON" -I -S worker/train.py\n'
LAUNCH = "import sys; from grpo_recipes.launch.local import launch; sys.exit(launch(sys.argv[1]))"
WATCH = (sys.executable, "-m", "grpo_recipes.cli.main", "watch")


@pytest.fixture
def folder(tmp_path: Path, grpo_run: Callable) -> Path:
    """A run folder that nobody started."""
    made = tmp_path / "run"
    answer = grpo_run("recipes/qwen2_lora.yaml", "--dry-run", "--target", STACK, "--out", str(made))
    assert answer.code == 0, answer.err
    return made


def write_record(folder: Path, **keys: object) -> None:
    content = {"run": 1, "started": "2026-01-01T00:00:00+00:00", "step": 2, "max_steps": 2, **keys}
    (folder / "run.json").write_text(record_text(folder, content))


def write_lock(folder: Path, host: str) -> None:
    """As a process leaves it that is gone."""
    (folder / ".training.lock").write_text(json.dumps({"host": host, "pid": 1, "since": "", "launch": ""}))


def step(number: int, reward: float) -> str:
    return json.dumps({"event": "step", "step": number, "max_steps": 2, "reward": reward, "time": time.time()}) + "\n"


def test_what_nobody_started_is_not_waited_for(folder: Path, grpo_run: Callable) -> None:
    answer = grpo_run("watch", str(folder))
    assert (answer.code, answer.out) == (2, "")
    assert "nothing to watch" in answer.err
    assert f"grpo-run {shlex.quote(str(folder))} trains it" in answer.err


@pytest.mark.parametrize(
    "content", [None, "", '{"run": 1, "sta', '{"run": 1}'], ids=["gone", "empty", "cut", "no seal"]
)
def test_a_run_that_lost_its_record_was_started_all_the_same(
    content: str | None, folder: Path, grpo_run: Callable
) -> None:
    (folder / "checkpoints").mkdir()
    if content is not None:
        (folder / "run.json").write_text(content)
    answer = grpo_run("watch", str(folder))
    assert answer.code == 2
    assert f"run.json {'is missing' if content is None else 'was changed'}" in answer.err
    assert "the run was never started" not in answer.err


def test_what_is_no_run_folder_is_refused(tmp_path: Path, grpo_run: Callable) -> None:
    answer = grpo_run("watch", str(tmp_path))
    assert (answer.code, answer.out) == (2, "")
    assert "is not a run folder" in answer.err


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("stopped", 3), ("interrupted", 75)])
def test_a_run_that_has_ended_is_told_at_once_with_its_exit(
    status: str, code: int, folder: Path, grpo_run: Callable
) -> None:
    write_record(folder, status=status, exit_code=code)
    (folder / "metrics.jsonl").write_text(step(1, 0.25) + step(2, 0.75))
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
    answer = grpo_run("watch", str(folder))
    assert answer.code == code
    assert answer.out.startswith(f"{status} at step 2 of 2\n")
    assert answer.err.splitlines() == ["step 1/2  reward 0.250", "step 2/2  reward 0.750  eta 0:00:00"]
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before


def test_json_is_the_record(folder: Path, grpo_run: Callable) -> None:
    write_record(folder, status="completed", exit_code=0)
    answer = grpo_run("watch", str(folder), "--json", "-q")
    assert json.loads(answer.out)["status"] == "completed"
    assert answer.err == ""


def test_a_run_whose_process_is_gone_ends_with_1(folder: Path, grpo_run: Callable) -> None:
    write_record(folder, status="running")
    (folder / ".training.lock").write_text(
        json.dumps({"host": socket.gethostname(), "pid": 1, "since": "", "launch": ""})
    )
    answer = grpo_run("watch", str(folder))
    assert answer.code == 1
    assert "its process is gone, but its run.json says running" in answer.err


def test_quiet_and_verbose_exclude_each_other(folder: Path, grpo_run: Callable) -> None:
    answer = grpo_run("watch", str(folder), "-q", "-v")
    assert (answer.code, answer.out) == (2, "")
    assert "--quiet and --verbose cannot be combined" in answer.err


def test_a_job_that_waits_in_a_queue_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_EVENTS_S", "_STATE_S", "_ENGINE_S"):
        monkeypatch.setattr(watch, name, 0.0)
    asked: list[bool] = []

    def is_active() -> bool:
        asked.append(True)
        if len(asked) == 3:  # it ran, was interrupted, and is queued again
            write_record(folder, status="interrupted", exit_code=75, slurm_job="7")
        if len(asked) == 6:
            write_record(folder, status="completed", exit_code=0, slurm_job="7")
            (folder / "metrics.jsonl").write_text(step(2, 0.75))
        return len(asked) < 7

    with PlainProgress(sys.stderr) as shown:
        assert watch.follow_to_the_end(str(folder), is_active, shown) == 0
    assert len(asked) == 7
    assert capsys.readouterr().err.splitlines() == ["it has not started yet", "step 2/2  reward 0.750"]


def test_a_run_of_another_machine_goes_on_until_it_says_how_it_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_EVENTS_S", 0.0)
    monkeypatch.setattr(watch, "_STATE_S", 0.0)
    write_lock(folder, "elsewhere")
    write_record(folder, status="running")
    looked: list[object] = []

    class Looked(PlainProgress):
        def show(self, event: object) -> None:
            looked.append(event)
            write_record(folder, status="completed", exit_code=0)

    (folder / "metrics.jsonl").write_text(step(1, 0.25))
    with Looked(sys.stderr) as shown:
        assert watch.follow_to_the_end(str(folder), lambda: False, shown) == 0
    assert len(looked) == 1


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks the processes of a test, none of which is left behind."""
    text = os.urandom(16).hex()
    monkeypatch.setenv(MARK, text)
    with leaving_nothing(text, within_s=10.0):
        yield text


def test_a_run_is_watched_while_it_goes_on_and_left_alone_by_ctrl_c(folder: Path, mark: str) -> None:
    (folder / "worker" / "train.py").write_text(TRAINER)
    (folder / "launch.sh").write_text(LAUNCH_SH)
    words = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    training = subprocess.Popen([sys.executable, "-c", LAUNCH, str(folder)], **words)  # type: ignore[call-overload]
    wait_until((folder / "metrics.jsonl").exists)
    left, stayed = (subprocess.Popen([*WATCH, str(folder)], **words) for _ in range(2))  # type: ignore[call-overload]
    assert left.stderr.readline() == "step 1/2  reward 0.250\n"
    time.sleep(0.3)  # a signal within the writing of that line would write it twice
    left.send_signal(signal.SIGINT)
    assert left.wait(timeout=180) == 75
    said = left.stderr.read()
    assert said == f"stopped watching; to watch it again: grpo-run watch {shlex.quote(str(folder))}\n"
    assert training.poll() is None
    (folder / "go").touch()
    assert training.wait(timeout=180) == 3
    out, err = stayed.communicate(timeout=180)
    assert stayed.returncode == 3
    assert out.startswith("stopped at step 2 of 2\n  a guard\n")
    assert "step 2/2  reward 0.750" in err
    training.communicate()
