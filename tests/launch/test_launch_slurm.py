"""What can be said of a job without a Slurm; tests/slurm has the rest."""

from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.engines.slurm import launch_job
from grpo_recipes.engines.slurm_job import JobState, SubmittedJob, clean_environment, is_queued, read_job, remember


def test_a_machine_that_submits_no_jobs_is_told_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match=r"sbatch is not installed here\n.*not in PATH\n.*on a login node of the cluster"):
        launch_job(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_known_again(tmp_path: Path) -> None:
    assert read_job(str(tmp_path)) is None
    assert not is_queued(str(tmp_path))
    remember(str(tmp_path), SubmittedJob("7", "big"))
    assert read_job(str(tmp_path)) == SubmittedJob("7", "big")
    assert SubmittedJob("7", "big").words("scancel", "7") == ["scancel", "--clusters=big", "7"]


def test_a_job_that_slurm_cannot_be_asked_about_counts_as_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(str(tmp_path), SubmittedJob("7"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_queued(str(tmp_path))


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "REQUEUED", "RESIZING"])
def test_a_job_that_can_continue_has_not_ended(state: str) -> None:
    assert not JobState(state).has_ended


@pytest.mark.parametrize("state", ["", "COMPLETED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"])
def test_a_job_that_slurm_has_ended_or_forgotten_has_ended(state: str) -> None:
    assert JobState(state).has_ended


def test_what_an_outer_job_says_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPU_BIND", "mask_cpu:0x1")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    monkeypatch.setenv("SBATCH_ACCOUNT", "team")
    found = clean_environment(PYTHON="python")
    assert "SLURM_CPU_BIND" not in found
    assert (found["SLURM_CONF"], found["SBATCH_ACCOUNT"], found["PYTHON"]) == (
        "/etc/slurm/slurm.conf",
        "team",
        "python",
    )
