"""Stages run in processes of their own, within their limits, and leave nothing behind."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_kit import session as sessions
from gpu_kit.result import Result, Results, read_results
from gpu_kit.session import Session, end_marked, run_stages
from gpu_kit.stages.catalog import STAGES

pytestmark = pytest.mark.processes


LONG_S = 3000


@pytest.mark.parametrize(
    ("here", "gpus", "shown"),
    [(None, 1, "0"), (None, 2, "0,1"), ("3,1,0", 1, "3"), ("GPU-a", 2, "GPU-a"), ("", 1, ""), ("3,1,0", None, None)],
)
def test_a_stage_sees_the_gpus_that_it_is_for(
    here: str | None, gpus: int | None, shown: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(sessions.VISIBLE, raising=False)
    if here is not None:
        monkeypatch.setenv(sessions.VISIBLE, here)
    assert sessions.visible_gpus(gpus) == ({} if shown is None else {sessions.VISIBLE: shown})


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """On a busy machine doctor takes longer than it may on one with a GPU."""
    monkeypatch.setitem(sessions.STAGES, "doctor", STAGES["doctor"]._replace(limit_s=LONG_S // 3))  # type: ignore[index]
    return Session(tmp_path / "work", tmp_path / "out")


@pytest.fixture
def endless(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Its trainings have no end, and cost nothing."""
    python = tmp_path / "python"
    own = shlex.quote(sys.executable)
    python.write_text(f'#!/bin/sh\ncase $3 in lora | qlora) exec sleep 600 ;; esac\nexec {own} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sessions, "sys", SimpleNamespace(executable=str(python)))
    return session


def test_a_stage_that_takes_too_long_is_ended_and_the_next_one_runs(
    endless: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sessions.STAGES, "lora", STAGES["lora"]._replace(limit_s=1))  # type: ignore[index]
    results, lines = Results("cpu", [{}]), []
    run_stages(endless, results, ["lora", "releases"], LONG_S, lines.append)
    assert {name: one.status for name, one in results.stages.items()} == {"lora": "late", "releases": "left out"}
    assert "ended after 1 s" in lines[0]
    assert read_results(endless.file) == results


def test_the_figures_of_a_running_stage_are_written_meanwhile(
    endless: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a command that is killed, which nothing can catch, leaves them; a passed result of an earlier one stays."""
    monkeypatch.setattr(sessions, "RECORD_S", 0.2)
    monkeypatch.setitem(sessions.STAGES, "lora", STAGES["lora"]._replace(limit_s=2))  # type: ignore[index]
    monkeypatch.setitem(sessions.STAGES, "qlora", STAGES["qlora"]._replace(limit_s=2))  # type: ignore[index]
    written: list[dict[str, str]] = []

    class Watched(Results):
        def write(self, path: Path) -> None:
            written.append({name: one.status for name, one in self.stages.items()})
            Results.write(self, path)

    results = Watched("cpu", [{}], {"qlora": Result("passed", date="2026-11-26")})
    run_stages(endless, results, ["lora", "qlora"], LONG_S, lambda line: None)
    assert written[0] == {"qlora": "passed", "lora": "cut off"}
    assert {"qlora": "passed", "lora": "late"} in written
    assert written[-1] == {"qlora": "late", "lora": "late"}


def test_a_stage_that_the_command_ends_is_cut_off(endless: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LEAST_S", 1)
    results = Results("cpu", [{}])
    run_stages(endless, results, ["lora"], 2, lambda line: None)
    assert (results.stages["lora"].status, results.stages["lora"].reason) == ("cut off", "ended after 2 s")


def test_a_stage_for_which_no_time_is_left_is_left_out(session: Session) -> None:
    results = Results("cpu", [{}])
    run_stages(session, results, ["lora"], 20, lambda line: None)
    assert (results.stages["lora"].status, results.stages["lora"].reason) == ("left out", "20 s were left")
    assert not session.work.exists()


def test_a_stage_that_fails_says_why_and_does_not_stop_the_rest(session: Session) -> None:
    results = Results("cpu", [{}])
    (session.work / "models").mkdir(parents=True)
    (session.work / "models" / "tiny").write_text("no model")  # where a folder belongs
    run_stages(session, results, ["lora", "releases"], LONG_S, lambda line: None)
    assert results.stages["lora"].status == "failed"
    assert "run-lora: exit 2" in results.stages["lora"].reason
    assert results.stages["releases"].status == "left out"


def test_what_a_stage_has_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_END_S", 1)  # of patience, for a program that has none
    words = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
    with subprocess.Popen(words, env={**os.environ, sessions.MARK: "here"}, start_new_session=True) as process:
        time.sleep(0.2)
        end_marked("another")
        assert process.poll() is None
        end_marked("here")
        assert process.wait(30) in (-9, -15)


def test_stages_side_by_side_end_all_and_those_that_take_times_run_alone(session: Session) -> None:
    results, lines = Results("cpu", [{}]), []
    run_stages(session, results, ["flash", "doctor", "releases"], LONG_S, lines.append, beside=2)
    assert {name: (one.status, one.beside) for name, one in results.stages.items()} == {
        "doctor": ("passed", 2),
        "releases": ("left out", 2),
        "flash": ("left out", 1),
    }
    assert lines[-1].startswith("flash")
