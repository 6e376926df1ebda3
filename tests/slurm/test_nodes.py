"""Nodes of a real cluster examine themselves before a job trains on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_runs import ROOT, environment
from support.processes import wait_until
from throw_away_cluster import Cluster

pytestmark = pytest.mark.slurm
RECIPE = """
recipe: 1
name: look
extends: {root}/recipes/quickstart.yaml
launch: {{engine: slurm, num_nodes: 2, gpus_per_node: {gpus}, environment: {{NCCL_SOCKET_IFNAME: "{interface}"}}}}
slurm: {{options: {{mem: 1G, dependency: afterok:1}}}}
"""


def looked(slurm: Cluster, home: Path, *more: str, gpus: int = 2, interface: str = "lo") -> tuple[int, str, str]:
    """The exit code of a preflight on the machines, and what it prints."""
    (home / "recipe.yaml").write_text(RECIPE.format(root=ROOT, gpus=gpus, interface=interface))
    command = [sys.executable, "-m", "grpo_recipes.cli.main", "preflight", "recipe.yaml", *more]
    done = subprocess.run(command, cwd=home, env=environment(slurm, home), capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout, done.stderr


def test_machines_with_all_that_is_needed_are_quiet(slurm: Cluster, tmp_path: Path) -> None:
    code, out, err = looked(slurm, tmp_path, "--on-nodes", "2", gpus=0)
    assert (code, out.strip()) == (0, "recipe.yaml: no findings"), out
    assert "checked node" in err


def test_what_a_machine_lacks_is_said_with_its_name(slurm: Cluster, tmp_path: Path) -> None:
    code, out, _ = looked(slurm, tmp_path, "--on-nodes", "2", interface="ib7")
    assert code == 2
    pair = next(line for line in out.splitlines() if "GPUs" in line)
    assert ": a task sees 0 GPUs, the plan needs 2" in pair
    assert pair.count("node") == 2, "one finding with both names"
    assert "NCCL_SOCKET_IFNAME is ib7, but the node has the interfaces" in out


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount of one node's own")
def test_shared_memory_of_a_container_on_one_machine_is_found(slurm: Cluster, tmp_path: Path) -> None:
    small = slurm.nodes[1]
    slurm.crash(small)
    slurm.start_node(small, hides=Path("/dev/shm"), size="64m")
    try:
        slurm.wait_until_idle(len(slurm.nodes))
        _, out, _ = looked(slurm, tmp_path, "--on-nodes", "4")
        (line,) = [line for line in out.splitlines() if "/dev/shm" in line]
        assert line.startswith(f"recipe.yaml: warning: {small}: /dev/shm has 64 MiB free")
    finally:
        slurm.crash(small)


def test_a_queue_is_waited_in_for_so_long_and_left(slurm: Cluster, tmp_path: Path) -> None:
    whole = ["--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"]
    job = slurm.run("sbatch", "--parsable", *whole).strip()
    wait_until(lambda: slurm.job(job)["JobState"] == "RUNNING", timeout_s=60)
    code, _, err = looked(slurm, tmp_path, "--on-nodes", "1", "--queue-limit", "3", gpus=0)
    assert code == 2
    assert "asking Slurm for 1 machine, waiting at most 3 s in the queue; Ctrl-C stops" in err
    assert "0 of 1 machines answered" in err and "--queue-limit SECONDS" in err
    assert slurm.run("squeue", "--noheader", "--format=%i").split() == [job], "nothing waits on"


def test_machines_that_slurm_does_not_give_are_an_error(slurm: Cluster, tmp_path: Path) -> None:
    code, _, err = looked(slurm, tmp_path, "--on-nodes", "1", "--set", "slurm.partition=nosuch")
    assert code == 2
    assert "invalid partition specified: nosuch" in err
    assert "0 of 1 machines answered" in err
    assert not slurm.run("squeue", "--noheader")
