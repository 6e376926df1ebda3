"""The catalogue: each recipe is for a stated machine, where it validates and fits, on the newest and an older stack.

The head of a recipe is where its task, size, hardware and state stand; `grpo-run init --list` and docs/catalogue.md
read them there.
"""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from kept_recipes import ROOT

from grpo_recipes.memory.estimate import MemoryNeeds
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.shipped import shipped_recipe, whole_text
from grpo_recipes.yaml.compose import compose

CATALOGUE = sorted((ROOT / "recipes/catalogue").glob("*.yaml"))
BASES = sorted((ROOT / "recipes/catalogue/bases").glob("*.yaml"))
STACKS = {
    "tested": "tested,vllm==0.30.0",
    "0.29.1/4.57.6": "python==3.11,torch==2.9.0,trl==0.29.1,transformers==4.57.6,peft==0.18.1,accelerate==1.13.0,"
    "datasets==4.8.5,bitsandbytes==0.50.2,deepspeed==0.18.2,math-verify==0.9.0,vllm==0.12.0",
}
TASKS = {"GSM8K", "MATH", "DAPO-Math", "countdown", "instructions", "JSON", "function calls", "code", "reversed text"}
FAMILIES = {"qwen2", "qwen3", "llama3", "gemma3", "phi4", "olmo2"}
# The chat template of a hub model is not here.
NEED_THE_TEMPLATE = {("not-checked", "TOK003"), ("not-checked", "TOL006")}
HARDWARE = r"(?:(\d+)x)?(\d+x[\w-]+-\d+GB)"
LONGEST_LINE = 120


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("recipe", CATALOGUE, ids=lambda path: path.stem)
def test_a_recipe_validates_without_a_word_and_fits_its_machine(recipe: Path, stack: str) -> None:
    machine = re.fullmatch(HARDWARE, shipped_recipe(recipe.stem).hardware)
    assert machine is not None
    declared, findings = parse_target(f"{STACKS[stack]},gpus={machine[2]}")
    assert declared is not None, findings
    resolution = resolve(str(recipe), declared)
    found = [one for one in resolution.findings if (one.severity, one.rule) not in NEED_THE_TEMPLATE]
    assert [f"{one.message} [{one.rule}]" for one in found] == []
    assert resolution.context is not None
    assert resolution.context.value("launch.num_nodes") == int(machine[1] or 1)
    needs = memory_needs(resolution.context)
    assert isinstance(needs, MemoryNeeds)
    assert needs.estimate().verdict() == "fits"


@pytest.mark.parametrize("recipe", CATALOGUE, ids=lambda path: path.stem)
def test_a_head_says_what_is_known_and_where_it_is_from(recipe: Path) -> None:
    head = recipe.read_text(encoding="utf-8").partition("\nrecipe:")[0]
    said = re.findall(r"^# (\w+): \S", head, re.MULTILINE)
    assert [word for word in said if word in ("Task", "Values", "Expected")] == ["Task", "Values", "Expected"]
    # A run is told with its figures, and the recipe is kept from then on.
    assert shipped_recipe(recipe.stem).state == "not run"
    assert max(map(len, head.splitlines())) <= LONGEST_LINE


@pytest.mark.parametrize("recipe", CATALOGUE, ids=lambda path: path.stem)
def test_a_recipe_is_written_whole_with_the_values_that_it_has(recipe: Path, tmp_path: Path) -> None:
    written = tmp_path / recipe.name
    written.write_text(whole_text(shipped_recipe(recipe.stem)), encoding="utf-8")
    source, findings = compose(str(written))
    original, _ = compose(str(recipe))
    assert source is not None and original is not None
    assert (source.values, findings, len(source.files)) == (original.values, [], 1)
    schema = json.loads((ROOT / "schemas/recipe.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(source.values)


def test_names_say_model_task_and_method_and_are_taken_once() -> None:
    names = [path.stem for path in CATALOGUE]
    assert all(name.endswith((f"_{shipped_recipe(name).method.lower()}", "_two_nodes")) for name in names)
    assert set(names) & {path.stem for path in (ROOT / "recipes").glob("*.yaml")} == set()


def test_the_catalogue_goes_from_small_to_large_and_has_every_task() -> None:
    listed = [shipped_recipe(path.stem) for path in CATALOGUE]
    assert len(listed) >= 20
    assert {one.method for one in listed} == {"full", "LoRA", "QLoRA"}
    assert {one.size for one in listed} >= {"0.5B", "1.5B", "3B", "7B", "14B", "32B"}
    assert {one.task for one in listed} == TASKS
    assert {name.partition("_")[0] for name in (one.name for one in listed)} >= FAMILIES


def test_every_base_is_stood_on() -> None:
    stood_on = {str(file) for path in CATALOGUE for file in (compose(str(path))[0] or pytest.fail(path.stem)).files[1:]}
    assert {path.name for path in BASES} == {Path(file).name for file in stood_on}


def test_a_base_is_a_task_to_stand_on(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("extends: grpo-recipes:bases/gsm8k\nname: own\n")
    source, findings = compose(str(tmp_path / "own.yaml"))
    assert source is not None and not findings
    assert source.files[1:] == ("grpo-recipes:bases/gsm8k", "grpo-recipes:bases/common")
