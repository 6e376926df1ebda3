"""grpo-run beside its job: it submits once, follows, can be left, and outlasts a controller that is away."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_runs import ROOT, environment, grpo_run, wait_until
from stub_jobs import ended, follow, wait_for_file
from throw_away_cluster import Cluster

pytestmark = pytest.mark.slurm

MakeFolder = Callable[[str], Path]
# Trains until it is told to go on.
WAITING = """
begin()
if node == 0:
    with open("metrics.jsonl", "a") as file:
        step = {"event": "step", "step": 1, "max_steps": 2, "reward": 0.25, "time": time.time()}
        file.write(json.dumps(step) + chr(10))
note(f"up{node}")
wait(lambda: os.path.exists("go"))
end("completed", 0)
"""


def test_a_job_is_followed_through_what_it_measures_to_its_end(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder(WAITING))
    wait_for_file(run, "up0")
    wait_until(lambda: "step 1/2  reward 0.250" in run.talk(), "the step", run, limit_s=30)
    (run.folder / "go").touch()
    ended(run, 0)
    assert f"submitted job {run.job} from {run.folder}" in run.talk()
    assert f"job {run.job} runs on node" in run.talk()


def test_a_job_that_is_left_goes_on_and_can_be_followed_again(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder(WAITING))
    wait_for_file(run, "up0")
    run.interrupt()
    assert run.wait() == 75
    assert f"SIGINT: job {run.job} continues without being followed" in run.talk()
    assert f"to follow it again: grpo-run '{run.folder}' --resume" in run.talk()
    assert f"to save and stop it: scancel --batch --signal=TERM {run.job}" in run.talk()
    assert slurm.job(run.job)["JobState"] == "RUNNING"
    # The command refuses a folder with a strange launch.sh, but here nothing is started.
    again = grpo_run(slurm, run.folder, str(run.folder), "--resume", home=run.folder.parent)
    wait_until(lambda: f"following job {run.job}" in again.talk(), "the job", again, limit_s=30)
    (run.folder / "go").touch()
    assert again.wait() == 0, again.story()
    assert len(run.ends()) == 1


def test_a_second_job_of_a_folder_is_refused(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder(WAITING))
    wait_for_file(run, "up0")
    second = follow(slurm, run.folder)
    assert second.wait() != 0
    assert f"its job {run.job} is still in the queue" in second.talk()
    (run.folder / "go").touch()
    ended(run, 0)


@pytest.mark.long
def test_a_controller_that_is_away_for_a_while_ends_nothing(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder(WAITING))
    wait_for_file(run, "up0")
    job = run.job
    slurm.stop_controller()
    try:
        wait_until(lambda: "Slurm does not answer" in run.talk(), "a word about it", run, limit_s=120)
    finally:
        slurm.start_controller()
    (run.folder / "go").touch()
    ended(run, 0)
    assert slurm.job(job)["JobState"] == "COMPLETED"


def test_a_job_that_is_cancelled_is_an_interrupted_run(slurm: Cluster, run_folder: MakeFolder) -> None:
    run = follow(slurm, run_folder("begin()\nnote(f'up{node}')\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\nwait()"))
    wait_for_file(run, "up0")
    slurm.run("scancel", run.job)
    assert run.wait() == 75, run.story()
    record = json.loads((run.folder / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("interrupted", 75)


def test_what_slurm_does_not_take_is_refused_with_its_words(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(WAITING)
    script = (folder / "job.sbatch").read_text()
    (folder / "job.sbatch").write_text(
        script.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --partition=none")
    )
    run = follow(slurm, folder)
    assert run.wait() != 0
    assert "Slurm refused the job" in run.talk()
    assert "invalid partition specified: none" in run.talk()
    assert not (folder / "job.json").exists()


@pytest.mark.parametrize("case", ["slurm_nodes_2_cpu", "slurm_nodes_2_cuda_8", "slurm_node_1_cuda_1"])
def test_slurm_reads_a_golden_job_as_it_was_meant(case: str, slurm: Cluster, tmp_path: Path) -> None:
    golden = ROOT / "tests" / "render" / "golden" / f"{case}.job.sbatch"
    words = ["sbatch", "--parsable", "--hold", "--partition=low", "--qos=", str(golden)]
    done = subprocess.run(words, cwd=tmp_path, env=environment(slurm, tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    job = slurm.job(done.stdout.strip())
    nodes, gpus = {"slurm_nodes_2_cpu": ("2", None), "slurm_nodes_2_cuda_8": ("2", "gres:gpu:h100:8")}.get(
        case, ("1", "gres:gpu:1")
    )
    assert (job["NumNodes"].split("-")[0], job.get("TresPerNode")) == (nodes, gpus)
    assert job["JobName"] == "addition"
    if gpus is not None:  # --gres asks for the same
        script = golden.read_text().replace("--gpus-per-node=", "--gres=gpu:")
        done = subprocess.run(
            [*words[:-1]], input=script, cwd=tmp_path, env=environment(slurm, tmp_path), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert slurm.job(done.stdout.strip()).get("TresPerNode") == gpus
    assert job["Requeue"] == "1"
