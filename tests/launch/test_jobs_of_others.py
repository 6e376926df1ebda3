"""What job.json of a folder names is followed only when it is this user's job of this folder, and nothing is
submitted unasked. scontrol and sbatch are small programs here; tests/slurm has the real ones."""

import fcntl
import io
import json
import os
from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.engines.slurm import follow_job, launch_job
from grpo_recipes.engines.slurm_job import SubmittedJob, is_queued, read_job

SCONTROL = """#!/bin/sh
echo "$@" >> {calls}
words="Reason=None Command=job.sbatch WorkDir={folder} StdErr=/x"
echo "JobId=12 JobName=x UserId={user} JobState={state} $words ExitCode=0:0"
"""
SBATCH = "#!/bin/sh\necho submitted >> {calls}\necho 13\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a run"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    told(folder)
    return folder


def told(folder: Path, *, state: str = "RUNNING", user: str | None = None, where: str | None = None) -> None:
    """Lets Slurm say this of job 12."""
    calls = f"'{folder.parent / 'calls'}'"
    user = f"me({os.getuid()})" if user is None else user
    for name, text in (("scontrol", SCONTROL), ("sbatch", SBATCH)):
        program = folder.parent / "bin" / name
        program.write_text(text.format(calls=calls, state=state, user=user, folder=where or folder))
        program.chmod(0o755)


def submitted(folder: Path) -> bool:
    calls = folder.parent / "calls"
    return calls.exists() and "submitted" in calls.read_text()


def named(folder: Path, job: object = "12", cluster: object = None) -> None:
    (folder / "job.json").write_text(json.dumps({"job": job, "cluster": cluster}))


def test_a_job_of_this_user_and_folder_is_queued(folder: Path) -> None:
    named(folder)
    assert is_queued(str(folder))


@pytest.mark.parametrize(
    "said",
    [{"user": "other(4711)"}, {"where": "/elsewhere"}, {"where": "/elsewhere with spaces"}, {"state": "COMPLETED"}],
    ids=str,
)
def test_a_job_of_another_user_or_folder_is_none_of_it(said: dict[str, str], folder: Path) -> None:
    named(folder)
    told(folder, **said)
    assert not is_queued(str(folder))


IDS = ("", "0", "-1", "12;x", "--all", "12 13", "1\n", "١٢", "12_3", "9" * 30, "$(x)", None, [], {}, 1.5, True, "12+0")


@pytest.mark.parametrize("job", IDS, ids=repr)
def test_what_is_no_number_of_a_job_is_asked_of_nobody(job: object, folder: Path) -> None:
    named(folder, job)
    assert read_job(str(folder)) is None and not is_queued(str(folder))
    assert not (folder.parent / "calls").exists()


@pytest.mark.parametrize("cluster", ["", "-x", "a b", "a,b", "a\n", 5, [], "--all"], ids=repr)
def test_nor_is_what_is_no_cluster(cluster: object, folder: Path) -> None:
    named(folder, "12", cluster)
    assert read_job(str(folder)) is None


def test_a_number_and_a_cluster_are_read(folder: Path) -> None:
    named(folder, 12, "north-1")
    assert read_job(str(folder)) == SubmittedJob("12", "north-1")


def test_a_job_that_ends_while_it_is_followed_is_not_submitted_again(folder: Path) -> None:
    named(folder)
    told(folder, state="COMPLETED")
    follow_job(str(folder), poll_s=0.1)
    assert not submitted(folder)


def test_a_suspended_job_is_followed_until_it_ends(folder: Path) -> None:
    named(folder)
    later = folder.parent / "later"
    later.write_text("SUSPENDED")
    told(folder, state=f"$(cat '{later}'; echo COMPLETED > '{later}')")
    shown = io.StringIO()
    follow_job(str(folder), echo=shown, poll_s=0.1)
    assert "job 12: suspended" in shown.getvalue()
    assert later.read_text() == "COMPLETED\n"
    assert not submitted(folder)


def test_a_held_lock_is_said_and_not_waited_for(folder: Path) -> None:
    with (folder / ".submit.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refusal, match="another process is submitting it"):
            launch_job(str(folder), resume=True)
    assert not submitted(folder)


def test_nothing_is_written_or_submitted_beside_a_job_that_is_queued(folder: Path) -> None:
    named(folder)

    def prepare() -> list[str]:
        raise AssertionError("the folder is in use")

    with pytest.raises(Refusal, match="its job 12 is still in the queue"):
        launch_job(str(folder), resume=True, prepare=prepare)
    assert not submitted(folder)


def test_a_submission_that_was_asked_for_would_be_seen(folder: Path) -> None:
    told(folder, state="COMPLETED")
    launch_job(str(folder), poll_s=0.1)
    assert submitted(folder)
