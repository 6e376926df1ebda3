"""A real run on two nodes of a real cluster: whatever happens to its job, it ends where nothing would have happened."""

from pathlib import Path

import pytest
from slurm_runs import STEPS, begin, grpo_run, wait_until, weights
from throw_away_cluster import Cluster

pytestmark = pytest.mark.slurm


def test_a_job_that_is_asked_to_save_goes_on_in_its_next_start(
    slurm: Cluster, uninterrupted: str, tmp_path: Path
) -> None:
    run = begin(slurm, tmp_path, interface="lo")  # where they meet changes no bit of the result
    run.wait_for_step(3)
    slurm.run("scancel", "--batch", "--signal=USR1", run.job)
    assert run.wait() == 0, run.story()
    assert [end["next"] for end in run.ends()] == ["requeue", 0], run.story()
    assert 3 <= int(str(run.ends()[0]["step"])) < STEPS
    assert weights(run.folder) == uninterrupted
    assert f"job {run.job} is back in the queue, start 2" in run.talk()


@pytest.mark.long
def test_a_job_goes_on_behind_its_time_limit(slurm: Cluster, uninterrupted: str, tmp_path: Path) -> None:
    run = begin(slurm, tmp_path, seconds=12.0)
    run.wait_for_step(3)
    # How long a start takes depends on the machine, so the limit comes when it trains: in one to two minutes.
    minutes = int(slurm.run("squeue", "--noheader", f"--jobs={run.job}", "--format=%M").split(":")[-2]) + 2
    slurm.run("scontrol", "update", f"JobId={run.job}", f"TimeLimit={minutes}")
    wait_until(lambda: run.ends(), "the end of the first start", run)
    slurm.run("scontrol", "update", f"JobId={run.job}", "TimeLimit=UNLIMITED")
    assert run.wait() == 0, run.story()
    assert [end["next"] for end in run.ends()] == ["requeue", 0], run.story()
    assert int(str(run.ends()[0]["step"])) < STEPS
    assert weights(run.folder) == uninterrupted


@pytest.mark.long
def test_a_job_that_is_preempted_goes_on_behind_the_other(slurm: Cluster, uninterrupted: str, tmp_path: Path) -> None:
    run = begin(slurm, tmp_path)
    run.wait_for_step(3)
    slurm.run("sbatch", "--partition=high", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 5")
    assert run.wait() == 0, run.story()
    assert [end["next"] for end in run.ends()] == ["requeue", 0], run.story()
    assert run.ends()[0]["because"] == "another job needs the machines"
    assert weights(run.folder) == uninterrupted


@pytest.mark.long
def test_a_job_that_an_administrator_requeues_goes_on(slurm: Cluster, uninterrupted: str, tmp_path: Path) -> None:
    run = begin(slurm, tmp_path)
    run.wait_for_step(5)
    slurm.run("scontrol", "requeue", run.job)
    assert run.wait() == 0, run.story()
    assert slurm.job(run.job)["Restarts"] == "1"
    assert weights(run.folder) == uninterrupted


@pytest.mark.long
@pytest.mark.parametrize("which", ["BatchHost", "another"])
def test_a_job_goes_on_without_a_node_that_crashed(
    which: str, slurm: Cluster, uninterrupted: str, tmp_path: Path
) -> None:
    run = begin(slurm, tmp_path)
    run.wait_for_step(5)
    batch_host = slurm.job(run.job)["BatchHost"]
    nodes = slurm.run("scontrol", "show", "hostnames", slurm.job(run.job)["NodeList"]).split()
    assert len(nodes) == 2
    crashed = batch_host if which == "BatchHost" else next(node for node in nodes if node != batch_host)
    slurm.crash(crashed)
    assert run.wait() == 0, run.story()
    assert int(slurm.job(run.job)["Restarts"]) >= 1, run.story()
    assert weights(run.folder) == uninterrupted


@pytest.mark.long
def test_a_job_that_is_told_to_stop_goes_on_when_it_is_resumed(
    slurm: Cluster, uninterrupted: str, tmp_path: Path
) -> None:
    run = begin(slurm, tmp_path)
    run.wait_for_step(3)
    slurm.run("scancel", "--batch", "--signal=TERM", run.job)
    assert run.wait() == 75, run.story()
    assert "interrupted at step" in run.talk()
    assert not slurm.run("squeue", "--noheader")
    again = grpo_run(slurm, run.folder, str(run.folder), "--resume", home=tmp_path)
    assert again.wait() == 0, again.story()
    assert again.job != run.ends()[0]["job"]
    assert weights(run.folder) == uninterrupted
