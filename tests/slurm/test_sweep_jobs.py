"""A sweep whose engine is Slurm: each run is a job of its own, and they go on when the sweep is left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slurm_runs import ROOT, environment
from throw_away_cluster import Cluster

pytestmark = pytest.mark.slurm
RECIPE = """
recipe: 1
name: queued-sweep
extends: {root}/recipes/quickstart.yaml
evaluation: null
training: {{max_steps: 2, save_steps: 2, prompts_per_step: 4}}
launch: {{engine: slurm, gpus_per_node: 0}}
"""


def sweep(cluster: Cluster, home: Path, *words: str) -> "subprocess.Popen[str]":
    """`grpo-run sweep` with its talk in a file."""
    with (home / "talk").open("a") as talk:
        return subprocess.Popen(
            [sys.executable, "-m", "grpo_recipes.cli.main", "sweep", *words],
            cwd=home,
            env=environment(cluster, home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            start_new_session=True,
        )


def jobs(home: Path) -> list[str]:
    """The ids of the jobs that were submitted."""
    return [str(json.loads(path.read_text())["job"]) for path in sorted(home.glob("swept/*/job.json"))]


def test_each_run_is_a_job_and_a_sweep_that_was_left_follows_them_again(slurm: Cluster, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(root=ROOT))
    varied = ("--vary", "training.learning_rate=1e-3,2e-3", "--seeds", "1", "--out", "swept")
    first = sweep(slurm, tmp_path, "recipe.yaml", *varied)
    give_up = time.monotonic() + 120
    while len(jobs(tmp_path)) < 2:
        assert first.poll() is None and time.monotonic() < give_up, (tmp_path / "talk").read_text()
        time.sleep(0.2)
    submitted = jobs(tmp_path)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=120)
    assert first.returncode == 75, (tmp_path / "talk").read_text()
    again = sweep(slurm, tmp_path, "swept")
    out, _ = again.communicate(timeout=500)
    talk = (tmp_path / "talk").read_text()
    assert again.returncode == 0, talk
    assert jobs(tmp_path) == submitted
    assert len(set(submitted)) == 2
    for name, job in zip(("1e-3", "2e-3"), submitted, strict=True):
        run = f"learning_rate-{name}-seed-42"
        assert f"{run}: following job {job} in {tmp_path / 'swept' / run}" in talk
    assert "outcome: mean training reward of the last tenth of the steps" in out
