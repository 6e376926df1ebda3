"""job.sbatch: what the golden files do not show. tests/slurm submits it."""

import dataclasses

import pytest
from render_cases import CASES

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.slurm_job import job_sbatch

PLAN = CASES["slurm_nodes_2_cpu"]


def with_options(**options: str | bool) -> Plan:
    return dataclasses.replace(PLAN, job=PLAN.job | {"options": options})


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("exclusive", True, "#SBATCH --exclusive"),
        ("constraint", "a100,h100", "#SBATCH --constraint=a100,h100"),
        ("dependency", "afterok:12?afterany:13", '#SBATCH --dependency="afterok:12?afterany:13"'),
        ("comment", "two words", '#SBATCH --comment="two words"'),
        ("comment", "$(rm -rf /) # x", '#SBATCH --comment="$(rm -rf /) # x"'),
    ],
)
def test_an_option_is_one_word_of_the_header(name: str, value: str | bool, line: str) -> None:
    assert line in str(job_sbatch(with_options(**{name: value}))).splitlines()


@pytest.mark.parametrize(
    ("gpu_type", "options", "line"),
    [
        (None, {}, "#SBATCH --gres=gpu:8"),
        ("h100", {"gres": "nvme:1"}, "#SBATCH --gres=gpu:h100:8,nvme:1"),
    ],
)
def test_a_cluster_with_gres_alone_is_asked_by_gres(gpu_type: str | None, options: dict[str, str], line: str) -> None:
    gpus = {"gpus_per_node": 8, "gpu_type": gpu_type, "gpu_option": "gres", "options": options}
    text = str(job_sbatch(dataclasses.replace(PLAN, job=PLAN.job | gpus)))
    assert line in text.splitlines()
    assert "--gpus-per-node" not in text


def test_the_machines_meet_on_the_interface_of_the_recipe() -> None:
    text = str(job_sbatch(dataclasses.replace(PLAN, job=PLAN.job | {"interface": "ib0"})))
    assert "survival.held_port ib0 2> " in text
    assert "NodeAddr" not in text
    assert "NodeAddr" in str(job_sbatch(PLAN))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("comment", "a\nrm -rf /"),
        ("comment", 'a" --wrap="x'),
        ("comment", "back\\slash"),
        ("comment=x\n<command>\n#SBATCH --nice", True),
        ("comment=x --wrap", "sleep"),
        ("wrap", "sleep 1"),
        ("erro", "/tmp/x"),
        ("x", True),
        ("", True),
    ],
)
def test_what_no_recipe_may_ask_for_is_not_rendered(name: str, value: str | bool) -> None:
    with pytest.raises(Refusal, match=r"slurm\.options"):
        job_sbatch(with_options(**{name: value}))


@pytest.mark.parametrize("field", ["partition", "account", "qos", "time", "gpu_type"])
@pytest.mark.parametrize("text", ["a\nreboot", "a\rb", "a\x1b[2J", "a\u2028b"])
def test_no_field_of_a_plan_leaves_its_line(field: str, text: str) -> None:
    job = PLAN.job | {field: text, "gpus_per_node": 1}
    with pytest.raises(Refusal, match="has a character"):
        job_sbatch(dataclasses.replace(PLAN, job=job))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": "--writable"}, "slurm.container.image must be the absolute path"),
        ({"image": "/a\nb.sqsh"}, "slurm.container.image must be"),
        ({"mounts": ["/a,/etc:/b"]}, "slurm.container.mounts.0 must be"),
    ],
)
def test_a_container_that_no_recipe_may_have_is_not_rendered(changes: dict[str, object], said: str) -> None:
    container = {"image": "/images/run.sqsh", "runtime": "pyxis", "mounts": [], "python": "python", **changes}
    with pytest.raises(Refusal, match=said):
        job_sbatch(dataclasses.replace(PLAN, job=PLAN.job | {"container": container}))


@pytest.mark.parametrize("folder", ["/runs/a:b", "/runs/a,b"])
def test_a_run_folder_that_no_mount_can_name_is_refused(folder: str) -> None:
    container = {"image": "/images/run.sqsh", "runtime": "pyxis"}
    with pytest.raises(Refusal, match=f"{folder} cannot be mounted"):
        job_sbatch(dataclasses.replace(PLAN, folder=folder, job=PLAN.job | {"container": container}))
