"""A vLLM server on a node of its own, small programs in place of both: whichever step ends first decides."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_runs import ROOT
from stub_jobs import ended, follow, wait_for_file, with_stub, written_folder
from throw_away_cluster import Cluster

from grpo_recipes.contract.plan_sections import Vllm, VllmServer
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.engines.slurm_job import job_sbatch

pytestmark = pytest.mark.slurm

MakeFolder = Callable[[str], Path]
# As worker/serve.py: 0 when the training has ended, 75 when the server died or was told to stop.
SERVER = """
if is_server:
    note("server", f"{os.environ['SLURMD_NODENAME']} {' '.join(arguments)}")
    wait(lambda: got or os.path.exists("die"))
    sys.exit(75)
"""


@pytest.fixture(scope="session")
def written(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose job has a third machine, to be copied."""
    folder = written_folder(slurm, tmp_path_factory.mktemp("written"), ROOT)
    server = VllmServer(("-m", "vllm"), {}, (), None, 60, 0, own_node=True)
    plan = dataclasses.replace(
        from_json((folder / "plan.json").read_text()), vllm=Vllm("server", "bfloat16", server=server)
    )
    (folder / "job.sbatch").write_text(str(job_sbatch(plan)))
    return folder


@pytest.fixture
def run_folder(written: Path, tmp_path: Path) -> MakeFolder:
    """Makes a run folder with a program as trainer and server."""

    def make(program: str) -> Path:
        return with_stub(Path(shutil.copytree(written, tmp_path / "a run")), program)

    return make


def test_the_server_has_the_last_machine_and_ends_with_the_training(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(
        SERVER + "note(f'node{node}', os.environ['SLURMD_NODENAME'] + ' ' + ' '.join(arguments))\n"
        "begin()\nwait(lambda: os.path.exists('server'))\nend('completed', 0)"
    )
    run = follow(slurm, folder)
    ended(run, 0)
    server, first, second = ((folder / name).read_text().split() for name in ("server", "node0", "node1"))
    assert server[0] > second[0] > first[0]
    assert server[1:4] == ["--server", "--address", first[first.index("--address") + 1]]


@pytest.mark.long
def test_trainers_are_asked_to_save_when_their_server_died_and_the_job_goes_on(
    slurm: Cluster, run_folder: MakeFolder
) -> None:
    folder = run_folder(
        SERVER + "begin()\nnote(f'up{start}{node}')\nif start == 2: end('completed', 0)\n"
        "wait()\nend('interrupted', 75, got[0])"
    )
    run = follow(slurm, folder)
    wait_for_file(run, "up10")
    (folder / "die").touch()
    wait_for_file(run, "server")
    log = ended(run, 0)
    assert "the vLLM server has ended: saving and stopping" in log
    assert [end["because"] for end in run.ends()] == [
        "the vLLM server ended before the training; requeue 1 of 10",
        "the run is completed",
    ]


def test_a_server_that_does_not_come_up_ends_the_job(slurm: Cluster, run_folder: MakeFolder) -> None:
    folder = run_folder(
        "if is_server:\n    note('down')\n    sys.exit(1)\n"
        "begin()\nwait(lambda: os.path.exists('down'))\nend('failed', 1, 'the vLLM server did not come up')"
    )
    run = follow(slurm, folder)
    ended(run, 1)
    assert [end["next"] for end in run.ends()] == [1]
