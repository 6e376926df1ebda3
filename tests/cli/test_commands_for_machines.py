"""grpo-run and several machines: the commands for each, and what Slurm will be asked for."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_recipes.contract.plan import to_json
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.engines.slurm_job import SlurmJob, slurm_job

pytestmark = pytest.mark.slow

RECIPE = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
TWO = ["--set", "launch.num_nodes=2", "--set", "launch.gpus_per_node=0"]


def _plan(grpo_run: Callable, *overrides: str) -> dict[str, Any]:
    words = [word for text in overrides for word in ("--set", text)]
    answer = grpo_run("plan", RECIPE, *words, "--json")
    assert answer.code == 0, answer.err
    plan: dict[str, Any] = json.loads(answer.out)
    return plan


def test_several_machines_get_a_command_each(grpo_run: Callable, tmp_path: Path) -> None:
    done = grpo_run(RECIPE, *TWO, "--out", str(tmp_path / "run"))
    for node, line in enumerate(done.out.splitlines()):
        end = ["--node", str(node), "--address", "ADDRESS", "--port", "29500"]
        assert shlex.split(line)[1:] == ["bash", f"{tmp_path}/run/launch.sh", *end]
    assert done.out.count("\n") == 2
    assert "ADDRESS is the name or address of the first machine, as the others reach it" in done.err
    assert "a shared disk" in done.err
    assert not (tmp_path / "run" / "run.json").exists()
    assert (tmp_path / "run" / "worker" / "meet.py").exists()


def test_an_address_that_is_known_stands_in_the_commands(grpo_run: Callable, tmp_path: Path) -> None:
    known = ["--set", "launch.main_process_ip=10.0.0.7", "--set", "launch.main_process_port=29600"]
    done = grpo_run(RECIPE, *TWO, *known, "--out", str(tmp_path / "a run"), "--smoke", "--json")
    said = json.loads(done.out)
    assert (said["address"], said["port"], said["folder"]) == ("10.0.0.7", 29600, str(tmp_path / "a run"))
    assert said["commands"][1].endswith(f"bash '{tmp_path}/a run/launch.sh' --node 1 --address 10.0.0.7 --port 29600")
    assert "ADDRESS" not in done.err


def test_a_run_on_several_machines_goes_on_with_a_command_each(grpo_run: Callable, tmp_path: Path) -> None:
    grpo_run(RECIPE, *TWO, "--out", str(tmp_path / "run"))
    done = grpo_run(str(tmp_path / "run"), "--resume")
    assert [line.rsplit(" ", 1)[1] for line in done.out.splitlines()] == ["--resume"] * 2


def test_a_job_asks_for_what_the_recipe_says(grpo_run: Callable) -> None:
    said = _plan(
        grpo_run,
        "launch.engine=slurm",
        "launch.num_nodes=2",
        "launch.gpus_per_node=0",
        'slurm={partition: cpu, time: "1:00:00", cpus_per_task: 4, options: {mem: 8G, nice: 10, exclusive: true}}',
    )
    slurm = SlurmJob(
        partition="cpu",
        account=None,
        qos=None,
        time="1:00:00",
        gpus_per_node=0,
        gpu_type=None,
        cpus_per_task=4,
        signal_seconds=600,
        max_requeues=10,
        options={"mem": "8G", "nice": "10", "exclusive": True},
    )
    plan = from_json(json.dumps(said))
    assert slurm_job(plan) == slurm
    assert plan.world == World("slurm", 2, 2, "cpu", "ddp")
    assert plan.stack["gpus"] is None, "those of this machine are not the cluster's"


def test_the_global_batch_is_that_of_one_machine(grpo_run: Callable) -> None:
    one, two = (
        _plan(grpo_run, "launch.num_processes=2"),
        _plan(grpo_run, "launch.num_nodes=2", "launch.gpus_per_node=0"),
    )
    assert one["arguments"] == two["arguments"]
    assert two["world"]["num_nodes"] == 2


def test_a_plan_without_machines_is_read_as_one_of_this_machine(grpo_run: Callable) -> None:
    said = _plan(grpo_run, "launch.num_processes=2")
    assert said.pop("job") == {}
    for name in ("main_process_ip", "main_process_port"):
        del said["world"][name]
    plan = from_json(json.dumps(said))
    assert (plan.job, plan.world.num_nodes, plan.world.main_process_port) == ({}, 1, 29500)
    assert from_json(to_json(plan)) == plan


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("slurm.time=1h", "must be minutes, or in quotes"),
        ("slurm.partition=a b", "a name that the cluster uses, without spaces"),
        ("launch.main_process_ip=a b", "a name or an address of a machine"),
        ("slurm.options={exclusive: false}", "must be"),
    ],
)
def test_what_sbatch_cannot_take_is_told_at_its_place(override: str, told: str, grpo_run: Callable) -> None:
    done = grpo_run("validate", RECIPE, "--set", override)
    assert (done.code, told in done.out) == (2, True), done.out
