"""A run that did not end is gone on with, and only with what it was started with."""

import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import RECIPE, REWARD, STACK, make_project
from support.releases import pinned

pytestmark = pytest.mark.slow


def _ended(project: Path, grpo_run: Callable, status: str, *options: str) -> Path:
    """The run folder of a run on this machine, with a record of how it ended."""
    run = project / "runs" / "first"
    answer = grpo_run(str(project / "recipe.yaml"), "--dry-run", "--out", str(run), *options)
    assert answer.code == 0, answer.err
    (run / "run.json").write_text(json.dumps({"run": 1, "status": status}))
    return run


def test_an_interrupted_run_is_not_begun_again_beside_itself(tmp_path: Path, grpo_run: Callable) -> None:
    run = _ended(make_project(tmp_path / "a"), grpo_run, "interrupted")
    refused = grpo_run(str(run), "--dry-run")
    assert refused.code == 2
    assert "= fix: --resume continues it, --out FOLDER" in refused.err
    assert [path.name for path in run.parent.iterdir()] == ["first"]
    assert grpo_run(str(run), "--dry-run", "--out", str(tmp_path / "again")).code == 0


@pytest.mark.parametrize("slurm", [[], ["--set", "launch={engine: slurm, gpus_per_node: 0}"]], ids=["here", "slurm"])
def test_a_dry_run_ends_with_the_command_that_starts_it(tmp_path: Path, grpo_run: Callable, slurm: list[str]) -> None:
    run = tmp_path / "a run"
    answer = grpo_run(str(make_project(tmp_path / "a") / "recipe.yaml"), "--dry-run", "--out", str(run), *slurm)
    assert (answer.code, answer.out) == (0, f"{run}\n"), answer.err
    assert answer.err.endswith(f"nothing was started; next: grpo-run '{run}' --resume\n")


@pytest.mark.parametrize("status", ["completed", "failed", "stopped"])
def test_a_run_that_ended_gets_a_new_folder_beside_it(tmp_path: Path, grpo_run: Callable, status: str) -> None:
    run = _ended(make_project(tmp_path / "a"), grpo_run, status)
    answer = grpo_run(str(run), "--dry-run")
    assert answer.code == 0, answer.err
    new = Path(answer.out.strip())
    assert (new.parent, new.name.startswith("small-")) == (run.parent, True)


def test_a_finished_run_is_not_resumed(tmp_path: Path, grpo_run: Callable) -> None:
    run = _ended(make_project(tmp_path / "a"), grpo_run, "completed")
    refused = grpo_run(str(run), "--resume")
    assert refused.code == 2
    assert f"= fix: grpo-run {shlex.quote(str(run))} trains the same plan again" in refused.err


def test_a_changed_experiment_is_not_resumed_and_said(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    run = _ended(project, grpo_run, "interrupted")
    (project / "rows.jsonl").write_text('{"question": "9+9="}\n' * 8)
    refused = grpo_run(str(run), "--resume")
    assert refused.code == 2
    assert "differs (experiment)  dataset" in refused.err
    assert "dataset differs from the plan" in refused.err


def test_a_run_of_another_machine_is_not_resumed(tmp_path: Path, grpo_run: Callable) -> None:
    """Its launch.sh starts what that machine needed."""
    target = ("--target", STACK.replace("gpus=0", "gpus=16xH100-80GB"))
    run = _ended(make_project(tmp_path / "a"), grpo_run, "interrupted", *target)
    refused = grpo_run(str(run), "--resume")
    assert refused.code == 2
    assert "differs (machine)" in refused.err
    assert "= because: world.num_processes, world.device, world.strategy" in refused.err
    assert "for a new run of the same plan" in refused.err


def test_resuming_asks_for_the_code_as_a_run_does(
    tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    run = _ended(make_project(tmp_path / "a"), grpo_run, "interrupted")
    refused = grpo_run(str(run), "--resume")
    assert refused.code == 2
    assert "--allow-code" in refused.err
    assert (run / "worker" / "user" / "rewards.py").read_text() == REWARD


@pytest.mark.parametrize(
    ("content", "because"),
    [
        (None, "No such file or directory"),
        ("{}", "= because: it has plan format None, "),
        ("[" * 100_000, "not a plan of this release"),
        ('{"plan": 1', "not a plan of this release"),
    ],
    ids=["none", "empty", "nested", "cut"],
)
def test_what_is_no_plan_is_refused_in_a_few_lines(
    tmp_path: Path, grpo_run: Callable, content: str | None, because: str
) -> None:
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    for place in (tmp_path, tmp_path / "plan.json"):
        answer = grpo_run(str(place), "--validate-only")
        assert (answer.code, answer.out) == (2, "")
        assert because in answer.err
        assert "\n  = fix: " in answer.err
        assert answer.err.count("\n") <= 4


def test_a_plan_of_a_newer_format_says_which_one_is_read(tmp_path: Path, grpo_run: Callable) -> None:
    run = _ended(make_project(tmp_path / "a"), grpo_run, "completed")
    plan = json.loads((run / "plan.json").read_text()) | {"plan": 2}
    (run / "plan.json").write_text(json.dumps(plan))
    answer = grpo_run(str(run), "--validate-only")
    assert answer.code == 2
    assert "plan format 2, this grpo-run reads 1" in answer.err


def test_a_smoke_run_folder_is_a_smoke_run_again(tmp_path: Path, grpo_run: Callable) -> None:
    project = make_project(tmp_path / "a")
    (project / "recipe.yaml").write_text(yaml.safe_dump(RECIPE | {"training": {"prompts_per_step": 4, "max_steps": 9}}))
    run = tmp_path / "smoke"
    assert grpo_run(str(project / "recipe.yaml"), "--smoke", "--dry-run", "--out", str(run)).code == 0
    again = tmp_path / "again"
    assert grpo_run(str(run), "--dry-run", "--out", str(again)).code == 0
    plan = json.loads((again / "plan.json").read_text())
    assert (plan["smoke"], plan["arguments"]["GRPOConfig"]["max_steps"]) == (True, 2)


def test_a_recipe_with_resume_is_told_its_runs_and_which_can_be_gone_on_with(
    tmp_path: Path, grpo_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
    assert "= because: none of its runs is in a folder here, or in runs/" in grpo_run(recipe, "--resume").err
    stack = f"{pinned('trl transformers peft accelerate torch')},gpus=0"
    ends = {"failed": 1, "interrupted": 3, "completed": 9, "planned": None}
    for place, (name, step) in enumerate(ends.items()):
        run = tmp_path / "runs" / name
        assert grpo_run(recipe, "--dry-run", "--target", stack, "--out", str(run)).code == 0
        os.utime(run / "plan.json", (place, place))
        if step is not None:
            (run / "run.json").write_text(json.dumps({"run": 1, "status": name, "step": step, "max_steps": 9}))
    beside = tmp_path / "kk"
    assert grpo_run(recipe, "--dry-run", "--target", stack, "--out", str(beside)).code == 0
    (beside / "run.json").write_text(json.dumps({"run": 1, "status": "interrupted", "step": 2, "max_steps": 9}))
    assert "= fix: grpo-run kk --resume" in grpo_run(recipe, "--resume").err
    shutil.rmtree(beside)
    answer = grpo_run(recipe, "--resume")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[1:] == [
        "  = because: runs/planned: planned, but not started",
        "  = because: runs/completed: completed at step 9 of 9",
        "  = because: runs/interrupted: interrupted at step 3 of 9",
        "  = because: runs/failed: failed at step 1 of 9",
        "  = fix: grpo-run runs/interrupted --resume",
    ]
    for name in ("failed", "interrupted"):
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps({"run": 1, "status": "completed"}))
    assert f"grpo-run {shlex.quote(recipe)} starts a new one" in grpo_run(recipe, "--resume").err


def test_a_changed_plan_is_planned_again_by_a_command_that_can_be_pasted(tmp_path: Path, grpo_run: Callable) -> None:
    run = _ended(make_project(tmp_path / "a project"), grpo_run, "failed")
    (run / "plan.json").write_text((run / "plan.json").read_text().replace('"seed": ', '"seed":  '))
    refused = grpo_run(str(run), "--dry-run")
    assert f"plan again: grpo-run '{run}/recipe.yaml' --out FOLDER; " in refused.err
