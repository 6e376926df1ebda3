"""What the plan of a mixture says of its sources, and what is compared of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import errors, resolved
from support.releases import pinned

from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.plan import Plan, to_json
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.engines.by_hand import local_files
from grpo_recipes.lock.pinned import values_to_verify
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe, smoke_plan
from grpo_recipes.stack.target import parse_target

RECIPE = """
recipe: 1
name: mixed
model: {model_name_or_path: owner/model}
datasets:
  - {source: math, path: math.jsonl, prompt: "{{ question }}", weight: 3, rewards: [exact_match, completion_length]}
  - {source: code, path: code.jsonl, prompt: "{{ task }}",
     weight: 1, from_step: 5, sort_by: -level, rewards: [tag_format]}
rewards: [{name: exact_match, weight: 2.0}, {name: tag_format}, {name: completion_length}]
evaluation: {path: held_out.jsonl}
grpo: {num_generations: 4}
training: {prompts_per_step: 4, max_steps: 10}
"""
TARGET = f"{pinned('python torch trl transformers accelerate datasets')},gpus=0"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    for name in ("math", "held_out"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"question": "1 + 1", "solution": "2"}) + "\n")
    rows = [json.dumps({"task": f"{level}", "level": level}) for level in range(3)]
    (tmp_path / "code.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "mixed.yaml").write_text(RECIPE)
    return tmp_path / "mixed.yaml"


def planned(recipe: Path, *overrides: str) -> Plan:
    stack, _ = parse_target(TARGET)
    assert stack is not None
    resolution = resolve(str(recipe), stack, overrides)
    assert not resolution.refused, resolution.findings
    return plan_of(resolution)


def test_each_source_is_planned_with_what_judges_it(recipe: Path) -> None:
    plan = planned(recipe)
    math, code = plan.sources
    assert plan.data == math
    assert list(plan.training_data) == ["datasets.math", "datasets.code"]
    assert (math.weight, math.from_step, math.in_order, math.rows) == (3.0, 1, False, 1)
    assert (code.weight, code.from_step, code.in_order, code.rows) == (1.0, 5, True, 3)
    assert [data.columns for data in plan.sources] == [{"source_name": "math"}, {"source_name": "code"}]
    assert [reward.not_of for reward in plan.rewards] == [("code",), ("math",), ("code",)]
    assert plan.evaluation is not None
    assert (plan.evaluation.data.prompt, plan.evaluation.rewards) == (
        "{{ question }}",
        ("exact_match", "completion_length"),
    )
    assert plan.evaluation.data.columns == {"source_name": "held out"}
    assert plan.arguments.GRPOConfig["shuffle_dataset"] is False
    assert plan.arguments.GRPOConfig["reward_weights"] == [2.0, 1.0, 1.0]
    rows = {row.key: row for row in plan.settings}
    assert [row["source"] for row in rows["datasets"].value] == ["math", "code"]  # type: ignore[attr-defined]
    assert not [key for key in rows if key.startswith("dataset.")]
    assert from_json(to_json(plan)) == plan


def test_what_finds_files_finds_those_of_all_sources(recipe: Path) -> None:
    plan, folder = planned(recipe), recipe.parent
    assert {str(folder / f"{name}.jsonl") for name in ("math", "code", "held_out")} <= set(local_files(plan))
    assert {key: rows for key, rows in values_to_verify(plan).items() if key.endswith("rows")} == {
        "datasets.math.rows": 1,
        "datasets.code.rows": 3,
        "evaluation.rows": 1,
    }
    stack, _ = parse_target(TARGET)
    assert stack is not None
    context = resolve(str(recipe), stack).context
    assert context is not None
    merged = merged_recipe(context.source)
    assert [one["path"] for one in merged["datasets"]] == [str(folder / "math.jsonl"), str(folder / "code.jsonl")]


def test_sources_are_compared_by_what_is_in_them(recipe: Path) -> None:
    plan = planned(recipe)
    assert differences(plan, planned(recipe)).experiment == ()
    one, two = plan.sources
    other = replace(plan, sources=(one, replace(two, sha256="0" * 64, weight=2.0)))
    assert [(each.key, each.group) for each in differences(plan, other).experiment] == [
        ("datasets.code.sha256", "data"),
        ("datasets.code.weight", "data"),
    ]
    fewer = differences(plan, replace(plan, sources=(one,))).experiment
    assert [(each.key, each.b) for each in fewer] == [("datasets.code", None)]


def test_a_trial_takes_some_rows_of_each_source(recipe: Path) -> None:
    assert [data.max_rows for data in smoke_plan(planned(recipe)).sources] == [8, 8]


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("dataset: null\ndatasets: {math: {path: owner/math}}", "datasets is {", "datasets: [{source: a,"),
        ("environments: {game: {python: game.py:Game}}", "environments is {", "environments: [{name: a,"),
        ("dataset: [{path: owner/math}]", "dataset is [{", "datasets: [{source: a,"),
        ("evaluation: {sets: [{path: owner/sums}]}", "evaluation.sets is [{", "sets: {easy: {path:"),
        (
            "rewards: [{judge: {base_url: localhost:8000/v1, model: m, prompt: '{{ completion }}'}}]",
            "rewards[0].judge.base_url is 'localhost:8000/v1'",
            "base_url: http://localhost:8000/v1",
        ),
    ],
)
def test_a_value_in_the_form_of_another_has_one_message(text: str, message: str, fix: str, tmp_path: Path) -> None:
    (finding,) = errors(resolved(tmp_path, text))
    assert finding.message.startswith(message)
    assert (finding.fix or "").startswith(fix)
