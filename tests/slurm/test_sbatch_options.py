"""The options that a recipe may have are options of the sbatch that is installed."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from throw_away_cluster import Cluster

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.sbatch_options import longer

pytestmark = pytest.mark.slurm

# Those that `sbatch --help` leaves out, or that are newer than 22.05.
NOT_IN_HELP = frozenset(
    (
        *("acctg-freq", "admin-comment", "extra", "hint", "kill-on-invalid-dep", "network", "prefer"),
        *("resv-ports", "segment", "wait-all-nodes"),
    )
)
NOT_OURS = frozenset(("ignore-pbs",))


def test_every_option_is_judged(slurm: Cluster) -> None:
    environment = {**os.environ, **slurm.environment}
    said = subprocess.run(["sbatch", "--help"], env=environment, capture_output=True, text=True, check=True).stdout
    of_sbatch = set(re.findall(r"--([a-z][a-z0-9-]+)", said))
    assert of_sbatch - set(longer("")) <= NOT_OURS
    assert set(table("sbatch_options")["allowed"]) - of_sbatch <= NOT_IN_HELP


def _submit(slurm: Cluster, folder: Path, option: str) -> dict[str, str]:
    """The fields of a job with one more option, which never starts."""
    script = folder / "job"
    script.write_text(f"#!/bin/sh\n#SBATCH {option}\nexit 0\n")
    done = subprocess.run(
        ["sbatch", "--parsable", "--hold", "--nodes=1", str(script)],
        cwd=folder,
        env={**os.environ, **slurm.environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return slurm.job(done.stdout.strip())


def test_a_beginning_of_a_name_is_taken_by_sbatch(slurm: Cluster, tmp_path: Path) -> None:
    assert _submit(slurm, tmp_path, "--erro=named")["StdErr"].endswith("/named")


def test_memory_without_a_unit_is_in_megabytes(slurm: Cluster, tmp_path: Path) -> None:
    assert _submit(slurm, tmp_path, "--mem=64")["MinMemoryNode"] == "64M"
