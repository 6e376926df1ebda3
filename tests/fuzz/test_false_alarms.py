"""What trains rightly is not refused: the shipped recipes, what TRL publishes, and recipes made to be valid."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from configurations import Configuration
from support.releases import pinned
from valid_recipes import valid_recipe

from grpo_recipes.resolve.resolve import Resolution, plan_of, resolve
from grpo_recipes.stack.target import parse_target

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
# What TRL's own documentation and examples set in GRPOConfig, less their logging: a page or script, and the fields.
PUBLISHED = [
    json.loads(line) for line in Path(__file__).with_name("published_configurations.jsonl").open(encoding="utf-8")
]
STACK = (
    f"{pinned('python torch trl transformers peft accelerate datasets')},"
    "bitsandbytes==0.50.2,deepspeed==0.19.8,math-verify==0.9.0,liger-kernel==0.8.0"
)


def _errors(file: Path, target: str) -> list[str]:
    """The error findings; a recipe without any has a plan."""
    stack, findings = parse_target(target)
    assert stack is not None, findings
    resolution: Resolution = resolve(str(file), stack)
    found = [f"{f.rule} {f.key}: {f.message}" for f in resolution.findings if f.severity == "error"]
    if not found:
        assert plan_of(resolution).settings
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_has_no_error(recipe: Path) -> None:
    gpus = {
        "qwen2_5_7b_zero3": "8xH100-80GB",
        "qwen2_5_7b_two_nodes": "8xH100-80GB",
        "calculator": "0",
        "colours": "0",
        "guess": "0",
        "quickstart": "0",
        "quickstart_qlora": "0",
    }.get(recipe.stem, "1xH100-80GB")
    assert _errors(recipe, f"{STACK},vllm==0.30.0,gpus={gpus}") == []


def _fitting(fields: dict[str, Any]) -> Configuration:
    """The fields with what the page leaves open: TRL's own defaults, accumulated until whole groups are generated."""
    generations = fields.get("num_generations", 8)
    per_device = fields.get("per_device_train_batch_size", max(8, generations))
    steps = next(steps for steps in range(1, generations + 1) if per_device * steps % generations == 0)
    batch = {"per_device_train_batch_size": per_device, "num_generations": generations}
    return Configuration(1, batch | {"gradient_accumulation_steps": steps} | fields)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda one: f"{one['from']}: {' '.join(one['fields'])[:60]}")
def test_what_trl_publishes_has_no_error(published: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "published.yaml"
    file.write_text(json.dumps(_fitting(published["fields"]).recipe()), encoding="utf-8")
    # What the page says of a server that somebody starts on a GPU of its own, the run starts itself.
    gpus = 2 if published["fields"].get("vllm_mode") == "server" else 1
    assert _errors(file, f"{STACK},vllm==0.30.0,gpus={gpus}xH100-80GB") == []


def _wrongly_refused(count: int, seed: int, folder: Path) -> list[tuple[int, str, list[str], dict[str, Any]]]:
    wrong = []
    for number in range(count):
        values, gpus = valid_recipe(random.Random(f"valid {seed} {number}"))
        file = folder / "valid.yaml"
        file.write_text(json.dumps(values), encoding="utf-8")
        found = _errors(file, f"{STACK},vllm==0.30.0,gpus={gpus}")
        errors = [error for error in found if not error.startswith("MEM001")]  # the GPUs are drawn, whatever the batch
        if errors:
            wrong.append((number, gpus, errors, values))
    return wrong


@pytest.mark.processes
def test_recipes_that_are_made_to_be_valid_have_no_error(tmp_path: Path) -> None:
    assert _wrongly_refused(40, 0, tmp_path)[:3] == []


@pytest.mark.fuzz
@pytest.mark.processes
def test_500_recipes_that_are_made_to_be_valid_have_no_error(seed: int, tmp_path: Path) -> None:
    assert _wrongly_refused(500, seed, tmp_path)[:3] == []
