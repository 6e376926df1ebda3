"""`validate --fix`: the diff that mends a recipe, written where that is asked for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import small_disks

TARGET = (
    "trl==1.16.0,transformers==5.23.0,peft==0.21.2,accelerate==1.15.0,datasets==5.2.0,torch==2.13.0,gpus=1xRTX-4090"
)
TARGET += ",bitsandbytes==0.50.2"
RECIPE = """\
recipe: 1   # of the team
name: case
model: {model_name_or_path: owner/model}
quantization: {load_in_4bit: true}
dataset: {path: owner/data, prompt: "{{ question }}", columns: {solution: "{{ answer }}"}}
rewards: [{name: exact_match}]
grpo:
    num_generations: 1   # too few
training: {prompts_per_step: 4, max_steps: 10}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(RECIPE)
    return path


def test_a_recipe_without_mistakes_has_no_diff(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("generations: 1 ", "generations: 8 ") + "lora: {r: 4}\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--target", TARGET)
    assert (answer.code, answer.out) == (0, "")


def test_the_diff_is_printed_and_nothing_is_written(grpo_run: Callable, recipe: Path) -> None:
    answer = grpo_run("validate", str(recipe), "--fix", "--target", TARGET)
    assert answer.code == 2
    assert "-    num_generations: 1   # too few" in answer.out
    assert "+lora: {r: 16, lora_alpha: 32}" in answer.out
    assert recipe.read_text() == RECIPE


def test_what_is_written_is_valid_and_keeps_comments_and_mode(grpo_run: Callable, recipe: Path) -> None:
    os.chmod(recipe, 0o640)
    answer = grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert (answer.code, "2 fixed; 0 left" in answer.err) == (0, True)
    text = recipe.read_text()
    assert text.startswith("recipe: 1   # of the team\n")
    assert "# too few" in text
    assert recipe.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in recipe.parent.iterdir()] == ["case.yaml"]
    assert grpo_run("validate", str(recipe), "--target", TARGET).code == 0


def test_a_finding_without_a_fix_is_named(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("[{name: exact_match}]", "[{name: nothing_like_it}]"))
    answer = grpo_run("validate", str(recipe), "--fix", "--write", "--target", TARGET)
    assert answer.code == 2
    assert "nothing_like_it" in answer.err
    assert "1 left" in answer.err


def test_what_a_parent_says_is_overridden_here(grpo_run: Callable, recipe: Path) -> None:
    child = recipe.with_name("child.yaml")
    child.write_text("extends: case.yaml\nname: child\n")
    answer = grpo_run("validate", str(child), "--fix", "--write", "--target", TARGET)
    assert answer.code == 0
    assert "num_generations: 2" in child.read_text()
    assert recipe.read_text() == RECIPE


@pytest.mark.parametrize(
    "options", [("--write",), ("--fix", "--format", "json"), ("--fix", "--set", "seed=1")], ids=" ".join
)
def test_options_that_do_not_go_together_are_refused(
    grpo_run: Callable, recipe: Path, options: tuple[str, ...]
) -> None:
    assert grpo_run("validate", str(recipe), *options).code == 2


def test_a_file_that_is_no_yaml_is_left_alone(grpo_run: Callable, recipe: Path) -> None:
    recipe.write_text("recipe: [1\n")
    answer = grpo_run("validate", str(recipe), "--fix", "--write")
    assert (answer.code, recipe.read_text()) == (2, "recipe: [1\n")


def test_a_recipe_that_cannot_be_written_stays_as_it_was(small_disk: Callable, grpo_run: Callable) -> None:
    disk = small_disk(16)
    recipe = disk / "case.yaml"
    recipe.write_text(RECIPE)
    small_disks.fill(disk)
    answer = grpo_run("validate", str(recipe), "--target", TARGET, "--fix", "--write")
    assert answer.code == 2
    assert f"error: {recipe} cannot be written, and is as it was\n  = because: No space left on device" in answer.err
    assert recipe.read_text() == RECIPE
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "case.yaml"]
