"""What follows when one start of a job has ended."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import grpo_recipes.worker
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.survival.job_end import Ended, Next, after, before, decide

PART = str(Path(grpo_recipes.worker.__file__).with_name("part.py"))
# A start that was interrupted after it had come from step 4 to step 8.
INTERRUPTED = Ended(75, {"status": "interrupted", "exit_code": 75}, step=8, step_before=4, max_requeues=3)
FAILED = {"status": "failed", "exit_code": 1}
RUNNING = {"status": "running", "exit_code": None}
NO_STEP: dict[str, Any] = {"step": 4}

CASES = {
    "completed": ({"record": {"status": "completed", "exit_code": 0}, "code": 0}, 0),
    "completed, but a launcher was ended by the cluster": (
        {"record": {"status": "completed", "exit_code": 0}, "code": 143, "preempted": True, "told": True},
        0,
    ),
    "interrupted": ({}, None),
    "killed without a word": ({"record": RUNNING, "code": 137}, None),
    "its machine went before it had begun": ({"record": None, "code": 137}, None),
    "failed": ({"record": FAILED, "code": 1}, 1),
    "failed while it was to leave": ({"record": FAILED, "code": 1, "preempted": True, "told": True}, 1),
    "stopped by a guard": ({"record": {"status": "stopped", "exit_code": 3}, "code": 1}, 3),
    "told to stop for good": ({"told": True}, 75),
    "told to stop, and killed": ({"told": True, "record": RUNNING, "code": 137}, 75),
    "told to stop by a preemption": ({"told": True, "preempted": True}, None),
    "the launchers found no program": ({"record": None, "code": 127}, 1),
    "one could not begin, and srun ended the others": ({"record": None, "code": 143}, 1),
    "its server ended, and so the trainer failed": ({"record": FAILED, "code": 1, "server_ended": True}, None),
    "the last requeue": ({"requeues": 2}, None),
    "one requeue too many": ({"requeues": 3}, 75),
    "preempted after the last requeue": ({"requeues": 3, "preempted": True}, None),
    "one start without a new step": ({**NO_STEP}, None),
    "two starts without a new step": ({**NO_STEP, "fruitless": 1}, 1),
    "a new step after one without": ({"fruitless": 1}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_follows_is_decided_by_how_a_start_ended(case: str) -> None:
    changes, exit_code = CASES[case]
    assert decide(replace(INTERRUPTED, **changes)).exit_code == exit_code


def test_a_job_that_gives_up_says_what_it_saw() -> None:
    given_up = decide(replace(INTERRUPTED, step=4, fruitless=1))
    assert given_up == Next(1, "the run was interrupted; 2 starts in a row gained no step beyond 4")
    assert decide(replace(INTERRUPTED, requeues=3)).because == "the run was interrupted; slurm.max_requeues is 3"


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm tells the trainers of job 7."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")


def start_of(folder: Path, status: str, *, code: int = 75, **how: bool) -> Next:
    """One start of a job, whose record ends with this status; "" for one that never began."""
    word = before(folder)
    if status:
        record = Record(folder, 0)
        record.start(resumed=True)
        if status != "running":
            record.end(status, {"interrupted": 75, "failed": 1}[status])
    return after(folder, "7", word, code, max_requeues=3, **how)


def test_the_record_of_an_earlier_start_is_not_taken_for_this_one(tmp_path: Path) -> None:
    assert start_of(tmp_path, "interrupted").exit_code is None
    found = start_of(tmp_path, "", code=1)
    assert found == Next(1, "no trainer started, and the launchers ended with exit code 1")


def test_starts_without_a_new_step_are_counted_for_each_job(tmp_path: Path) -> None:
    assert start_of(tmp_path, "interrupted").exit_code is None
    assert after(tmp_path, "8", "none/0", 75, max_requeues=3).exit_code is None
    assert start_of(tmp_path, "interrupted").exit_code == 1


def test_run_json_says_how_a_start_ended_that_could_not_say_so_itself(tmp_path: Path) -> None:
    start_of(tmp_path, "running", code=137)
    record = Record(tmp_path, 0).read()
    assert (record["status"], record["exit_code"]) == ("interrupted", 75)
    assert record["message"] == "the trainers ended without a reason, srun with exit code 137; requeue 1 of 3"
    start_of(tmp_path, "running", code=137)
    record = Record(tmp_path, 0).read()
    assert (record["status"], record["exit_code"]) == ("failed", 1)


def test_a_job_that_another_run_kept_out_of_the_folder_leaves_its_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = before(tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "6")
    Record(tmp_path, 0).start(resumed=False)
    assert after(tmp_path, "7", word, 1, max_requeues=3).exit_code == 2
    assert Record(tmp_path, 0).read()["status"] == "running"
    assert after(tmp_path, "6", word, 137, max_requeues=3).exit_code is None


def test_a_failure_keeps_the_words_of_the_worker(tmp_path: Path) -> None:
    record = Record(tmp_path, 0)
    word = before(tmp_path)
    record.start(resumed=False)
    record.end("failed", 1, "the loss is NaN")
    assert after(tmp_path, "7", word, 1, max_requeues=3).exit_code == 1
    assert record.read()["message"] == "the loss is NaN"


@pytest.mark.processes
def test_the_job_s_script_gets_one_word(tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", PART, "survival.job_end", str(tmp_path), *arguments],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    words = ["after", "--job", "7", "--max-requeues", "1"]
    assert said(*words, "--before", said("before"), "--code", "137") == "requeue"
    assert said(*words, "--before", said("before"), "--code", "137", "--told") == "75"
    lines = (tmp_path / "job_ends.jsonl").read_text().splitlines()
    assert [json.loads(line)["next"] for line in lines] == ["requeue", 75]


@pytest.mark.processes
def test_what_a_job_prints_comes_to_its_log_without_secrets(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-P", PART, "survival.redacted", str(tmp_path / "train.log")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MY_API_TOKEN": "correct horse battery"},
        input=b"one\nthe token is correct horse battery\nno end of line",
        check=True,
    )
    assert (tmp_path / "train.log").read_text() == "one\nthe token is <redacted>\nno end of line"
