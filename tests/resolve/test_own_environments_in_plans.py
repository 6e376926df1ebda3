"""TRL's own environment in a plan: the rows that it brings, its package, what is asked for, and the recipe again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import declared, errors

from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.plan import Plan, to_json
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.contract.tasks import OPENREWARD
from grpo_recipes.report.plan_text import plan_text
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe
from grpo_recipes.trust.code import code_parts

RECIPE = {
    "recipe": 1,
    "name": "own",
    "model": {"model_name_or_path": "owner/model"},
    "environment": {"python": OPENREWARD, "config": {"target": "https://tasks.example.com", "num_tasks": 4}},
    "dataset": {"split": "hard", "max_rows": 8},
    "evaluation": {"split": "test", "max_rows": 2},
    "training": {"prompts_per_step": 4, "max_steps": 10},
}
TARGET = (
    "python==3.11,torch==2.13.0,trl==1.16.0,transformers==5.23.0,accelerate==1.15.0,datasets==5.2.0,gpus=0,"
    "openreward==0.1.167"
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "own.yaml").write_text(json.dumps(RECIPE))
    resolution = resolve(str(tmp_path / "own.yaml"), declared(TARGET))
    assert errors(resolution) == []
    assert resolution.context is not None
    assert merged_recipe(resolution.context.source)["environment"] == RECIPE["environment"], "no path of a file"
    return plan_of(resolution)


def test_rows_are_those_of_the_class_and_of_the_split(plan: Plan) -> None:
    assert plan.evaluation is not None
    own = {"target": "https://tasks.example.com", "num_tasks": 4}
    for data, split, rows in ((plan.data, "hard", 8), (plan.evaluation.data, "test", 2)):
        assert data.made == {"spec": OPENREWARD, "config": {**own, "split": split}}
        assert (data.source, data.max_rows, data.prompt, data.sha256) == ("made", rows, None, None)
    assert plan.environment_class is not None and plan.environment_class.package is not None
    assert plan.environment_class.config == {**own, "split": "hard"}
    assert (plan.environment_class.package.name, plan.environment_class.package.release) == ("trl", "1.16.0")


def test_a_plan_is_read_again_and_shown(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan
    assert f"OpenRewardSpec  {OPENREWARD}\n" in plan_text(plan)
    assert plan.environment_class is not None
    other = replace(plan, environment_class=replace(plan.environment_class, config={"target": "https://b.example"}))
    assert {one.key for one in differences(plan, other).experiment} >= {"environment.config.target"}


def test_the_service_is_asked_for_with_what_it_gets(plan: Plan) -> None:
    (part,) = code_parts(plan)
    assert part.kind == "package environment" and part.is_fixed
    assert "https://tasks.example.com" in part.what
    assert "which gets what the model calls, and the key of its service" in part.what
    assert plan.environment_class is not None
    elsewhere = replace(plan.environment_class, config={"target": "https://b.example"})
    assert code_parts(replace(plan, environment_class=elsewhere))[0].sha256 != part.sha256
