"""Every recipe ever shipped still is the recipe that it was: it validates, and its experiment is the same.

A folder holds what changed in meaning with one commit, named by its place in their order and the commit. The stack of
all of them is the one below. `experiments.json` and `format_1.json` are what format 1 made of them when they came; new
keys are added there, what stands there never changes. `python tests/shipped_recipes/kept_recipes.py` adds what is new.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kept_recipes import FOLDER, FORMAT, ROOT, defaults, experiment, laid_out, shipped, target

from grpo_recipes.compare.differences import differences
from grpo_recipes.memory.estimate import MemoryNeeds
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.smollm2_recipe import STARTER

KEPT = shipped()
NAMES = [str(path.relative_to(FOLDER)) for path in KEPT]
# Recipes that are refused now, each with the reason.
REFUSED: dict[str, str] = {}
# The GPUs that the heads of the recipes name, the smallest of them.
STATED = {
    "qwen2_5_7b_two_nodes": "8xH100-80GB",
    "qwen2_5_7b_zero3": "8xH100-80GB",
    "qwen2_lora": "1xL4-24GB",
    "qwen2_qlora": "1xRTX3060-12GB",
    "qwen3_alphabet_sort": "1xH100-80GB",
    "qwen3_python_tool": "1xA100-80GB",
    "search_stop_tokens": "1xA100-40GB",
}


@pytest.mark.parametrize("recipe", KEPT, ids=NAMES)
def test_a_recipe_that_was_shipped_validates_on_the_stack_of_its_time(recipe: Path, tmp_path: Path) -> None:
    resolution = resolve(laid_out(recipe, tmp_path), target(recipe.stem))
    errors = [f"{one.message} [{one.rule}]" for one in resolution.findings if one.severity == "error"]
    assert bool(errors) == (str(recipe.relative_to(FOLDER)) in REFUSED), errors


@pytest.mark.parametrize("recipe", KEPT, ids=NAMES)
def test_its_experiment_is_what_it_was(recipe: Path, tmp_path: Path) -> None:
    then = json.loads((FOLDER / "experiments.json").read_text())[str(recipe.relative_to(FOLDER))]
    now = experiment(recipe, tmp_path)
    assert {key: _said(now.get(key)) for key in then} == {key: _said(value) for key, value in then.items()}


def _said(value: Any) -> Any:
    """A value, and of the items of a list what is not null, as a key is that came later."""
    if not isinstance(value, list):
        return value
    return [
        {key: one for key, one in item.items() if one is not None} if isinstance(item, dict) else item for item in value
    ]


def test_no_default_of_the_format_changes_and_no_key_goes() -> None:
    then = json.loads((FOLDER / "format_1.json").read_text())
    now = defaults()
    said = {key for key, default in then.items() if default == "required"}  # no recipe went without it
    assert {key: now.get(key, "gone") for key in then if key not in said} == {
        key: default for key, default in then.items() if key not in said
    }
    assert said <= now.keys()


def test_every_key_of_the_format_is_recorded() -> None:
    assert defaults().keys() - json.loads((FOLDER / "format_1.json").read_text()).keys() == set(), (
        "kept_recipes.py adds them"
    )


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_shipped_now_is_kept(recipe: Path) -> None:
    newest = [path for path in KEPT if path.name == recipe.name][-1]
    assert yaml.safe_load(newest.read_text()) == yaml.safe_load(recipe.read_text()), "keep it in a folder of its commit"


def test_the_recipe_of_init_is_kept() -> None:
    newest = [path for path in KEPT if path.stem == "starter"][-1]
    assert yaml.safe_load(newest.read_text()) == yaml.safe_load(STARTER)


@pytest.mark.parametrize(
    "recipe", [path for path in KEPT if path.stem != "starter"], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_shipped_recipe_keeps_its_experiment_under_its_name(recipe: Path, tmp_path: Path) -> None:
    then = plan_of(resolve(laid_out(recipe, tmp_path), target(recipe.stem)))
    (tmp_path / "child.yaml").write_text(f"extends: grpo-recipes:{recipe.stem}\n")
    now = plan_of(resolve(str(tmp_path / "child.yaml"), target(recipe.stem)))
    assert differences(then, now).experiment == ()


def test_a_later_format_is_one_finding_with_what_to_upgrade(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(f"recipe: {FORMAT + 1}\nname: new\nworld: {{planets: 3}}\n")
    (tmp_path / "child.yaml").write_text("extends: new\nrecipe: 1\n")
    for name in ("new", "child"):
        resolution = resolve(str(tmp_path / f"{name}.yaml"), target("quickstart"))
        (found,) = [one for one in resolution.findings if one.severity == "error"]
        assert found.message == "recipe format 2 is newer than this grpo-run"
        assert str(found.mark) == f"{tmp_path}/new.yaml:1:1"
        assert found.because[0].endswith("reads format 1")
        assert found.fix == "upgrade grpo-recipes"


@pytest.mark.parametrize("vllm", ["absent", "0.30.0"])
@pytest.mark.parametrize(("name", "gpus"), STATED.items())
def test_a_recipe_fits_the_hardware_that_its_head_names(name: str, gpus: str, vllm: str) -> None:
    stack, _ = parse_target(f"tested,vllm=={vllm},gpus={gpus}")
    assert stack is not None
    resolution = resolve(str(ROOT / "recipes" / f"{name}.yaml"), stack)
    assert resolution.context is not None
    needs = memory_needs(resolution.context)
    assert isinstance(needs, MemoryNeeds), needs
    assert needs.estimate().verdict() == "fits"


def test_every_recipe_for_gpus_names_its_hardware() -> None:
    heads = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "recipes").glob("*.yaml")}
    assert {name for name, head in heads.items() if "no GPU" not in head.partition("recipe:")[0]} == STATED.keys()
