"""The options that a recipe may have are options of the sbatch that is installed."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from throw_away_cluster import Cluster

from grpo_recipes.facts.accepted_keys import longer
from grpo_recipes.facts.released.shipped import table

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


def test_a_beginning_of_a_name_is_taken_by_sbatch(slurm: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("#!/bin/sh\n#SBATCH --erro=named\nexit 0\n")
    done = subprocess.run(
        ["sbatch", "--parsable", "--hold", "--nodes=1", str(script)],
        cwd=tmp_path,
        env={**os.environ, **slurm.environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert slurm.job(done.stdout.strip())["StdErr"].endswith("/named")
