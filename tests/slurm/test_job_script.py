"""job.sbatch on a real cluster, with small programs as trainers: what it checks, hands on, waits for and decides."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_runs import ROOT
from stub_jobs import ended, follow, wait_for_file, with_stub, written_folder
from throw_away_cluster import Cluster

pytestmark = pytest.mark.slurm

MakeFolder = Callable[[str], Path]


DONE = "begin()\nend('completed', 0)"


def test_each_machine_gets_its_number_and_the_same_address_and_port(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder("note(f'words{node}', ' '.join(arguments))\nbegin()\nend('completed', 0)")
    ended(follow(slurm, folder), 0)
    words = [(folder / f"words{node}").read_text().split() for node in (0, 1)]
    assert [each[:2] for each in words] == [["--node", "0"], ["--node", "1"]]
    assert words[0][2:] == words[1][2:]
    assert words[0][2:5:2] == ["--address", "--port"]
    assert len(words[0]) == 6


def on_interface(slurm: Cluster, home: Path, interface: str) -> Path:
    """A run folder whose machines meet there, with a trainer that notes where."""
    folder = written_folder(slurm, home, ROOT, "--set", f"slurm.interface={interface}")
    return with_stub(folder, "note(f'words{node}', ' '.join(arguments))\n" + DONE)


def test_the_machines_meet_on_the_interface_that_the_recipe_names(slurm: Cluster, tmp_path: Path) -> None:
    folder = on_interface(slurm, tmp_path, "lo")
    ended(follow(slurm, folder), 0)
    addresses = [(folder / f"words{node}").read_text().split()[3] for node in (0, 1)]
    assert addresses == ["127.0.0.1"] * 2, "Slurm's own address of the first machine is 127.0.0.11"


def test_an_interface_that_the_first_machine_lacks_ends_in_words(slurm: Cluster, tmp_path: Path) -> None:
    folder = on_interface(slurm, tmp_path, "ib7")
    slurm.run("sbatch", "--wait", "job.sbatch", cwd=folder, fails=True, PYTHON=sys.executable)
    assert "node1 has no IPv4 address on the interface ib7" in (folder / "train.log").read_text()
    assert not (folder / "run.json").exists()


def test_the_port_is_held_for_the_job_until_it_listens_there(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(
        "import socket\n"
        "port = int(arguments[arguments.index('--port') + 1])\n"
        "stranger = socket.socket()\n"
        "try: stranger.bind(('', port))\n"
        "except OSError as error: note(f'refused{node}', error)\n"
        "if not node: note('listening', socket.create_server(('', port)).getsockname()[1] == port)\n" + DONE
    )
    ended(follow(slurm, folder), 0)
    assert "in use" in (folder / "refused0").read_text()
    assert (folder / "listening").read_text() == "True"


def test_a_task_has_the_whole_environment_and_nothing_of_an_outer_job(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder("note(f'environment{node}', json.dumps(dict(os.environ)))\nbegin()\nend('completed', 0)")
    # An outer job asked for what this one does not: srun takes such variables for options.
    outer = {
        "SLURM_NTASKS": "7",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_MEM_PER_NODE": "1",
        "SLURM_JOB_ID": "1",
    }
    ended(follow(slurm, folder, MINE="two words", **outer), 0)
    found = json.loads((folder / "environment1").read_text())
    assert found["MINE"] == "two words"
    assert found["PYTHON"] == sys.executable
    assert found["SLURM_NTASKS"] == "2"
    assert "mask_cpu" not in found.get("SLURM_CPU_BIND", "")


def test_what_a_job_prints_is_in_train_log_without_secrets(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder("begin()\nprint(f'from {node}:', os.environ['MY_API_TOKEN'])\nend('completed', 0)")
    log = ended(follow(slurm, folder, MY_API_TOKEN="correct-horse-battery"), 0)
    assert sorted(line for line in log.splitlines() if line.startswith("from")) == [
        "from 0: <redacted>",
        "from 1: <redacted>",
    ]
    assert "correct-horse" not in (folder / "slurm.log").read_text()


def test_a_failure_is_not_tried_again(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder("begin()\nif node: wait()\nend('failed', 1, 'the loss is NaN')")
    run = follow(slurm, folder)
    ended(run, 1)
    assert [end["next"] for end in run.ends()] == [1]
    assert json.loads((folder / "run.json").read_text())["message"] == "the loss is NaN"


def test_the_exit_code_of_a_guard_is_that_of_the_run(slurm: Cluster, run_folder: MakeFolder) -> None:
    ended(follow(slurm, run_folder("begin()\nend('stopped', 3, 'truncated')")), 3)


def test_trainers_that_cannot_begin_are_not_tried_again(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder("sys.exit('no stack here')"))
    assert "no stack here" in ended(run, 1)
    assert len(run.ends()) == 1
    assert str(run.ends()[0]["because"]).startswith("no trainer started, and the launchers ended with exit code 1")
    record = json.loads((run.folder / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 1)


@pytest.mark.long
def test_a_job_gives_up_when_two_starts_gained_nothing(slurm: Cluster, run_folder: MakeFolder) -> None:
    killed = "begin()\nnote(f'start{start}', ' '.join(arguments))\nos.kill(os.getpid(), signal.SIGKILL)"
    folder = run_folder(f"if node: wait()\n{killed}")  # the first one alone begins, and nobody ends before it has
    run = follow(slurm, folder)
    ended(run, 1)
    assert [end["next"] for end in run.ends()] == ["requeue", 1]
    assert "--resume" not in (folder / "start1").read_text()
    assert "--resume" in (folder / "start2").read_text()
    message = json.loads((folder / "run.json").read_text())["message"]
    assert message.startswith("the trainers ended without a reason")
    assert message.endswith("; 2 starts in a row gained no step beyond 0")


def test_a_signal_waits_for_a_trainer_that_has_not_begun(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(
        "note(f'up{node}')\nwait(lambda: os.path.exists('go'))\nassert not got\nbegin()\nwait()\n"
        "end('interrupted', 75, got[0])"
    )
    run = follow(slurm, folder)
    wait_for_file(run, "up0")
    slurm.run("scancel", "--batch", "--signal=TERM", run.job)
    wait_for_file(run, "up1")
    (folder / "go").touch()
    log = ended(run, 75)
    assert "TERM: saving and stopping" in log
    assert json.loads((folder / "run.json").read_text())["message"] == "SIGUSR1"
    assert [end["because"] for end in run.ends()] == ["it was asked to stop"]


@pytest.mark.parametrize("asked", [["--nodes=3"], ["--nodes=1"]])
def test_a_job_with_other_machines_than_planned_ends_in_words(
    asked: list[str], slurm: Cluster, run_folder: MakeFolder
) -> None:
    folder = run_folder(DONE)
    slurm.run("sbatch", "--wait", "--parsable", *asked, "job.sbatch", cwd=folder, fails=True, PYTHON=sys.executable)
    count = asked[0].partition("=")[2]
    assert f"the job has {count} machines, the plan needs 2" in (folder / "train.log").read_text()
    assert not (folder / "run.json").exists()


def test_a_job_that_is_submitted_elsewhere_ends_in_words(
    slurm: Cluster, run_folder: MakeFolder, tmp_path: Path
) -> None:
    folder = run_folder(DONE)
    slurm.run("sbatch", "--wait", str(folder / "job.sbatch"), cwd=tmp_path, fails=True)
    assert "is not a run folder; submit in it" in (tmp_path / "slurm.log").read_text()


def test_a_python_that_a_machine_lacks_is_named(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(DONE)
    slurm.run("sbatch", "--wait", "job.sbatch", cwd=folder, fails=True, PYTHON="/no/such/python")
    assert "no program /no/such/python" in (folder / "slurm.log").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount of one node's own")
def test_a_machine_that_does_not_see_the_run_folder_is_named(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(DONE)
    hidden = slurm.nodes[1]
    slurm.crash(hidden)
    slurm.start_node(hidden, hides=folder)
    try:
        slurm.wait_until_idle(len(slurm.nodes))
        run = follow(slurm, folder, SBATCH_PARTITION="low")
        log = ended(run, 2)
        assert f"{hidden} does not see the run folder" in log
        assert "put both where every machine of the job finds them" in log
    finally:
        slurm.crash(hidden)
