"""job.sbatch: what the golden files do not show. tests/slurm submits it."""

import dataclasses
from pathlib import Path

import pytest
from render_cases import CASES

from grpo_recipes.errors import Refusal
from grpo_recipes.plan import Plan
from grpo_recipes.render.foreign_files import foreign_files
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.render.slurm import job_sbatch

PLAN = CASES["slurm_nodes_2_cpu"]


def with_options(**options: str | bool) -> Plan:
    assert PLAN.slurm is not None
    return dataclasses.replace(PLAN, slurm=dataclasses.replace(PLAN.slurm, options=options))


def test_another_engine_has_no_job() -> None:
    assert job_sbatch(CASES["nodes_2_ddp_cpu"]) is None


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (True, "#SBATCH --x"),
        ("a100,h100", "#SBATCH --x=a100,h100"),
        ("afterok:12?afterany:13", '#SBATCH --x="afterok:12?afterany:13"'),
        ("two words", '#SBATCH --x="two words"'),
        ('back\\slash "quoted"', '#SBATCH --x="back\\\\slash \\"quoted\\""'),
        ("$(rm -rf /) # `x`", '#SBATCH --x="$(rm -rf /) # `x`"'),
    ],
)
def test_an_option_is_one_word_of_the_header(value: str | bool, line: str) -> None:
    assert line in str(job_sbatch(with_options(x=value))).splitlines()


def test_an_option_cannot_leave_its_line() -> None:
    with pytest.raises(Refusal, match=r"slurm\.options\.comment"):
        job_sbatch(with_options(comment="a\nrm -rf /"))


def test_a_job_script_that_was_changed_is_a_foreign_file(tmp_path: Path) -> None:
    folder = write_run_folder(PLAN, str(tmp_path / "run"), "")
    assert foreign_files(PLAN, folder) == {}
    (tmp_path / "run" / "job.sbatch").write_text("#!/bin/bash\nevil")
    assert list(foreign_files(PLAN, folder)) == ["job.sbatch"]
