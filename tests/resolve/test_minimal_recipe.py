"""`plan --minimal`: what is left of a recipe gives the same plan, and nothing of it can go."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from random_recipes import NEWEST, valid_recipes
from small_recipe import BASE, STACK, declared

from grpo_recipes.contract.plan import Plan
from grpo_recipes.resolve.resolve import Resolution, plan_of, resolve
from grpo_recipes.resolve.variants.minimal_recipe import minimal_recipe_text
from grpo_recipes.stack.stack import Stack

ROOT = Path(__file__).parents[2]
ON_A_GPU = declared(STACK.replace("gpus=0", "gpus=8xH100-80GB").replace("vllm==absent", "vllm==0.30.0"))


def what_is_run(plan: Plan) -> Plan:
    """The plan without where its values were written, where it lies, and what was said on the way."""
    return replace(plan, recipe={}, settings=(), findings=(), recipe_file=None)


def experiment(plan: Plan) -> dict[str, object]:
    return {row.key: row.value for row in plan.settings if row.kind == "experiment" and row.value not in ({}, [], "")}


def minimal_and_again(resolution: Resolution, stack: Stack, beside: str) -> tuple[str, dict[str, Any]]:
    """The minimal recipe's text and values, which are seen to give the same plan beside the recipe."""
    text = minimal_recipe_text(resolution)
    Path(beside).write_text(text)
    again, plan = plan_of(resolve(beside, stack)), plan_of(resolution)
    assert what_is_run(again) == what_is_run(plan)
    assert experiment(again) == experiment(plan)
    return text, yaml.safe_load(text)


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_recipe_keeps_its_plan(recipe: Path, tmp_path: Path) -> None:
    for folder in ("calculator", "colours", "guess", "quickstart", "qwen3_alphabet_sort", "qwen3_python_tool"):
        (tmp_path / folder).symlink_to(ROOT / "recipes" / folder)
    for path in (ROOT / "recipes").glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    stack = declared() if recipe.stem.startswith(("calculator", "colours", "guess", "quickstart")) else ON_A_GPU
    resolution = resolve(str(tmp_path / recipe.name), stack)
    text, _ = minimal_and_again(resolution, stack, str(tmp_path / "minimal.yaml"))
    assert len(text) < len(recipe.read_text())


@pytest.mark.slow
def test_a_random_recipe_keeps_its_plan(tmp_path: Path) -> None:
    shorter = 0
    for source, values in valid_recipes(tmp_path, 8, seed=5):
        resolution = resolve(source.file, NEWEST)
        _, left = minimal_and_again(resolution, NEWEST, str(tmp_path / "minimal.yaml"))
        shorter += len(str(left)) < len(str(values))
    assert shorter == 8


def _over(values: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
    """The values as a child says them: with null for everything that the parent has and they have not."""
    child = copy.deepcopy(values)
    for key, old in parent.items():
        if key not in values:
            child[key] = None
        elif isinstance(old, dict) and isinstance(values[key], dict):
            child[key] = _over(values[key], old)
    return child


@pytest.mark.slow
def test_a_random_child_of_a_random_parent_keeps_its_plan(tmp_path: Path) -> None:
    recipes = [values for _, values in valid_recipes(tmp_path, 20, seed=6)]
    for values, parent in zip(recipes[::2], recipes[1::2], strict=True):
        (tmp_path / "parent.yaml").write_text(json.dumps(parent))
        (tmp_path / "child.yaml").write_text(json.dumps({"extends": "parent.yaml", **_over(values, parent)}))
        resolution = resolve(str(tmp_path / "child.yaml"), NEWEST)
        _, left = minimal_and_again(resolution, NEWEST, str(tmp_path / "minimal.yaml"))
        assert left["extends"] == "parent.yaml"
        assert "name" not in left


def resolved_child(folder: Path, child: str, *overrides: str) -> Resolution:
    (folder / "presets").mkdir(exist_ok=True)
    (folder / "presets/base.yaml").write_text(BASE + "grpo: {beta: 0.04}\ngeneration: {stop: ['</a>']}\n")
    (folder / "child.yaml").write_text(f"extends: presets/base\n{child}")
    return resolve(str(folder / "child.yaml"), declared(), overrides)


@pytest.mark.parametrize(
    ("child", "left"),
    [
        ("name: base\n", {}),
        ("grpo: {beta: 0.04, epsilon: 0.2}\n", {}),
        ("grpo: {beta: 0.0}\n", {"grpo": {"beta": 0.0}}),
        ("grpo: {beta: null}\n", {"grpo": {"beta": None}}),
        ("generation: null\n", {"generation": None}),
        ("generation: {stop: ['</a>']}\n", {}),
        ("generation: {stop: ['</a>', '</b>']}\n", {"generation": {"stop": {"extend": ["</b>"]}}}),
        ("generation: {stop: {extend: ['</b>']}}\n", {"generation": {"stop": {"extend": ["</b>"]}}}),
        ("generation: {stop: ['</b>', '</a>']}\n", {"generation": {"stop": ["</b>", "</a>"]}}),
        (
            "rewards: {extend: [{name: completion_length, weight: 1.0, options: {max_characters: 9}}]}\n",
            {"rewards": {"extend": [{"name": "completion_length", "options": {"max_characters": 9}}]}},
        ),
        ("lora: {r: 8, bias: none}\n", {"lora": {}}),
        ("trl: {}\nseed: 42\n", {}),
    ],
    ids=lambda value: value.strip() if isinstance(value, str) else "",
)
def test_a_child_says_what_its_parent_and_the_format_do_not(
    tmp_path: Path, child: str, left: dict[str, object]
) -> None:
    resolution = resolved_child(tmp_path, child)
    _, values = minimal_and_again(resolution, declared(), str(tmp_path / "minimal.yaml"))
    assert values == {"extends": "presets/base", **left}


def test_the_longest_completion_of_a_reward_is_the_recipes_own(tmp_path: Path) -> None:
    punishing = "{{name: soft_overlong_punishment, options: {{soft_punish_cache: 8{}}}}}"
    given = ["", ", max_completion_len: null", ", max_completion_len: 32"]
    rewards = ", ".join(punishing.format(each) for each in given)
    resolution = resolved_child(tmp_path, f"generation: {{max_completion_length: 64}}\nrewards: [{rewards}]\n")
    found = [reward.kwargs["max_completion_len"] for reward in plan_of(resolution).rewards]
    assert found == [64, 64, 32]


def test_the_same_path_written_by_another_file_is_another_path(tmp_path: Path) -> None:
    for folder, rows in (("presets", 4), (".", 5)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "rows.jsonl").write_text('{"question": "1", "answer": "2"}\n' * rows)
    base = BASE.replace("owner/data", "./rows.jsonl")
    resolved_child(tmp_path, "")
    (tmp_path / "presets/base.yaml").write_text(base)
    resolution = resolve(str(tmp_path / "child.yaml"), declared())
    assert minimal_and_again(resolution, declared(), str(tmp_path / "minimal.yaml"))[1] == {"extends": "presets/base"}
    (tmp_path / "child.yaml").write_text("extends: presets/base\ndataset: {path: ./rows.jsonl}\n")
    resolution = resolve(str(tmp_path / "child.yaml"), declared())
    _, values = minimal_and_again(resolution, declared(), str(tmp_path / "minimal.yaml"))
    assert values["dataset"] == {"path": "./rows.jsonl"}


def test_overrides_are_part_of_what_it_says(tmp_path: Path, grpo_run: Callable) -> None:
    resolved_child(tmp_path, "")
    answer = grpo_run("plan", str(tmp_path / "child.yaml"), "--minimal", "--set", "grpo.beta=0.1", "--target", STACK)
    assert (answer.code, yaml.safe_load(answer.out)) == (0, {"extends": "presets/base", "grpo": {"beta": 0.1}})


def test_the_merged_recipe_needs_no_parent(tmp_path: Path, grpo_run: Callable) -> None:
    resolution = resolved_child(tmp_path, "name: mine\n")
    answer = grpo_run("plan", str(tmp_path / "child.yaml"), "--recipe", "--target", STACK)
    assert answer.code == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/r.yaml").write_text(answer.out)
    assert "extends" not in yaml.safe_load(answer.out)
    again = plan_of(resolve(str(tmp_path / "elsewhere/r.yaml"), declared()))
    assert what_is_run(again) == what_is_run(plan_of(resolution))


def test_plan_has_one_answer_at_a_time(grpo_run: Callable) -> None:
    answer = grpo_run("plan", "a.yaml", "--recipe", "--minimal")
    assert (answer.code, answer.out) == (2, "")
