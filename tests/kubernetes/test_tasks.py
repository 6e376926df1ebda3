"""task.yaml of twelve recipes: SkyPilot's own loader, the GPUs that fit, and how a run survives its machine."""

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluster_plans import FOLDER, RECIPES, SKYPILOT, cluster_file, cluster_plan, documents
from environment import ROOT, is_made, python_of

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan_sections import PlannedMemory
from grpo_recipes.engines.skypilot import ENGINE
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.target import parse_target

has_skypilot = pytest.mark.skipif(not is_made("skypilot"), reason="make test-kubernetes SKYPILOT=yes fetches SkyPilot")
LOAD = Path(__file__).with_name("load_tasks.py")


def task(recipe: str, *overrides: str) -> dict[str, Any]:
    """The task of a recipe."""
    (found,) = documents(cluster_file(cluster_plan(recipe, *SKYPILOT, *overrides)))
    return found


@has_skypilot
@pytest.mark.processes
def test_skypilot_loads_the_tasks_of_twelve_recipes(tmp_path: Path) -> None:
    files = []
    for recipe in RECIPES:
        folder = tmp_path / Path(recipe).stem
        folder.mkdir()
        plan = dataclasses.replace(cluster_plan(recipe, *SKYPILOT), folder=str(folder))
        (folder / "task.yaml").write_text(cluster_file(plan))
        files.append(str(folder / "task.yaml"))
    misspelt = (tmp_path / "quickstart" / "task.yaml").read_text().replace("num_nodes", "num_node")
    (tmp_path / "misspelt.yaml").write_text(misspelt)
    done = subprocess.run(
        [python_of("skypilot"), LOAD, *files, tmp_path / "misspelt.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "num_node" in loaded.pop(str(tmp_path / "misspelt.yaml"))["refused"]
    for recipe, found in zip(RECIPES, loaded.values(), strict=True):
        assert found["nodes"] == (2 if "two_nodes" in recipe else 1)
        assert found["spot"]
        assert found["recovery"]["recover_on_exit_codes"] == [75]
        counts = {name.rpartition(":")[2] for name in found["accelerators"]}
        assert counts == ({str(RECIPES[recipe])} if RECIPES[recipe] else set())


def test_a_task_asks_for_the_gpus_that_the_run_fits_into() -> None:
    small = task("recipes/qwen2_lora.yaml")["resources"]["accelerators"]
    large = task("recipes/qwen2_5_7b_zero3.yaml")["resources"]["accelerators"]
    assert set(large.values()) == {8}
    assert set(large) < set(small)
    assert "H200" in large
    assert task("recipes/qwen2_lora.yaml", "skypilot.accelerators=[L4]")["resources"]["accelerators"] == {"L4": 1}


def test_a_run_that_fits_into_no_gpu_has_no_task() -> None:
    plan = cluster_plan("recipes/qwen2_lora.yaml", *SKYPILOT)
    with pytest.raises(Refusal, match="it is unknown which GPUs the run fits on"):
        ENGINE.files(dataclasses.replace(plan, memory=None))
    large = PlannedMemory("unknown", {"update": {"activations": 2**40}})
    with pytest.raises(Refusal, match="it needs 1024 GiB for each GPU to update"):
        ENGINE.files(dataclasses.replace(plan, memory=large))


def test_validate_says_that_a_run_fits_into_no_gpu() -> None:
    stack, _ = parse_target("tested,gpus=1xH100-80GB")
    assert stack is not None
    words = [*SKYPILOT, "launch.gpus_per_node=1", "generation.max_completion_length=200000"]
    found = [one for one in resolve("recipes/qwen2_lora.yaml", stack, words).findings if one.rule == "WLD011"]
    assert [one.message.partition(" L4,")[0] for one in found] == [
        "skypilot.accelerators is empty, and the run fits into none of"
    ]


def test_what_keeps_the_run() -> None:
    recipe = "recipes/qwen2_lora.yaml"
    assert task(recipe)["volumes"] == {"/runs": "runs"}
    on_bucket = task(recipe, "skypilot.volume=null", "skypilot.storage=s3://my-runs")
    assert on_bucket["file_mounts"] == {"/runs": {"source": "s3://my-runs", "mode": "MOUNT_CACHED"}}
    assert on_bucket["workdir"] == FOLDER
    assert on_bucket["secrets"] == {"HF_TOKEN": None}


def test_files_of_this_machine_are_mounted_at_the_same_paths() -> None:
    mounts = task("recipes/quickstart.yaml")["file_mounts"]
    assert mounts == {str(path): str(path) for path in map(Path, mounts)}
    assert {Path(path).name for path in mounts} == {"model", "train.jsonl", "test.jsonl"}


@pytest.mark.processes
def test_a_machine_trains_nothing_where_the_disk_has_another_plan(tmp_path: Path) -> None:
    script = task("recipes/quickstart.yaml")["run"].replace("/runs/", f"{tmp_path}/disk/")
    for name in ("disk", "workdir", "workdir/worker"):
        (tmp_path / name).mkdir()

    def run(plan: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "workdir/plan.json").write_text(plan)
        variables = {"PATH": "/usr/bin:/bin", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "a", "PYTHON": "true"}
        command, workdir = ["bash", "-c", script], tmp_path / "workdir"
        return subprocess.run(command, cwd=workdir, env=variables, capture_output=True, text=True, timeout=60)

    assert [run("one").returncode, run("one").returncode] == [0, 0]
    other = run("two")
    assert other.returncode == 2
    assert other.stderr.count("fix:") == 3
    (kept,) = (tmp_path / "disk").glob("*/plan.json")
    assert kept.read_text() == "one"


def test_the_command_passes_secrets_on_without_their_values() -> None:
    plan = cluster_plan("recipes/quickstart.yaml", *SKYPILOT)
    assert ENGINE.commands(plan, FOLDER, resume=True) == [f"sky jobs launch --secret HF_TOKEN {FOLDER}/task.yaml"]


@pytest.mark.parametrize("secret", ["HF_TOKEN=hf_abc", "A; touch here", "$(id)", ""])
def test_a_secret_that_is_no_name_gets_into_no_file_and_no_command(secret: str) -> None:
    plan = cluster_plan("recipes/quickstart.yaml", *SKYPILOT)
    plan = dataclasses.replace(plan, job={**plan.job, "secrets": [secret]})
    for answer in (lambda: ENGINE.files(plan), lambda: ENGINE.commands(plan, FOLDER, resume=False)):
        with pytest.raises(Refusal, match=r"skypilot\.secrets must be names of environment variables"):
            answer()
