"""Provides one cluster for all tests, and an undisturbed run."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_runs import ROOT, begin, weights
from stub_jobs import with_stub, written_folder
from throw_away_cluster import Cluster, NoCluster, cluster


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of four nodes; skips with the reason if there is none."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(cluster(tmp_path_factory.mktemp("cluster")))
        except NoCluster as problem:
            pytest.skip(str(problem))


@pytest.fixture(autouse=True)
def quiet_cluster(slurm: Cluster) -> Iterator[None]:
    """Removes all jobs after a test, and restores crashed nodes."""
    yield
    slurm.cancel_all()
    slurm.repair()


@pytest.fixture(scope="session")
def uninterrupted(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the undisturbed run."""
    run = begin(slurm, tmp_path_factory.mktemp("uninterrupted"), seconds=0.0)
    assert run.wait() == 0, run.story()
    return weights(run.folder)


@pytest.fixture(scope="session")
def written(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder to copy."""
    return written_folder(slurm, tmp_path_factory.mktemp("written"), ROOT)


@pytest.fixture
def run_folder(written: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a run folder whose name has a space, with a program as its trainer."""

    def make(program: str) -> Path:
        return with_stub(Path(shutil.copytree(written, tmp_path / "a run")), program)

    return make
