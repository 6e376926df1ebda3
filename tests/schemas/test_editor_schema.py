"""The schema for editors knows what validate knows, and marks nothing that validate accepts."""

import inspect
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from field_meanings import TABLE, documented, read_installed

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas/recipe.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RECIPE: dict[str, Any] = {
    "recipe": 1,
    "name": "edited",
    "model": {"model_name_or_path": "owner/model"},
    "dataset": {"path": "owner/data", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
    "rewards": [{"name": "exact_match"}],
    "training": {"prompts_per_step": 8, "max_steps": 10},
}
NEWEST = "tested,gpus=1xH100-80GB"
STACKS = {
    "newest": NEWEST,
    "trl-0.29": f"{NEWEST},trl==0.29.1,transformers==4.57.6",
    "trl-0.18": f"{NEWEST},trl==0.18.2,transformers==4.52.4,peft==0.15.2",
    "trl-0.14": f"{NEWEST},trl==0.14.0,transformers==4.48.3,peft==0.14.0",
}
FREE = [field.name for field in classified_fields().values() if not (field.home or field.owner)]
VALUES = (
    None,
    "auto",
    "none",
    "x",
    "1",
    True,
    False,
    0,
    1,
    -1,
    2.0,
    0.5,
    100000,
    [],
    ["x"],
    [1],
    {},
    {"x": 1},
    {"x": True},
)
CLOSED = {
    "grpo": ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation"),
    "generation": ("vllm_mode",),
    "training": ("lr_scheduler_type", "optim"),
}
FIELDS = SCHEMA["properties"]["trl"]["properties"]


def _stack(target: str) -> Stack:
    stack, findings = parse_target(target)
    assert stack is not None, findings
    return stack


def _refused(values: dict[str, Any], target: str, folder: Path, rules: tuple[str, ...] = ("",)) -> set[str]:
    """The keys with an error, of rules that begin so."""
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(values))
    found = resolve(str(file), _stack(target)).findings
    return {one.key for one in found if one.severity == "error" and one.rule.startswith(rules)}


def _marked(values: dict[str, Any]) -> set[str]:
    """The keys that an editor marks."""
    return {".".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(values)}


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("target", STACKS.values(), ids=STACKS)
def test_nothing_that_validate_accepts_under_trl_is_marked(target: str, value: object, tmp_path: Path) -> None:
    """A release that lacks a field does not judge its values."""
    known = facts_for(_stack(target)).fields("GRPOConfig") or {}
    recipe = {**RECIPE, "trl": dict.fromkeys([name for name in FREE if name in known], value)}
    assert len(recipe["trl"]) > 40
    assert sorted(_marked(recipe) - _refused(recipe, target, tmp_path)) == []


def test_a_field_that_no_release_has_is_not_marked() -> None:
    assert _marked({**RECIPE, "trl": {"a_field_of_tomorrow": 1}}) == set()


def _words(name: str) -> list[object]:
    """What an editor offers for a field."""
    section = next(section for section, names in CLOSED.items() if name in names)
    branches = SCHEMA["$defs"][f"{section.capitalize()}Section"]["properties"][name]["anyOf"]
    return list(branches[0]["enum"])


@pytest.mark.parametrize(("section", "name"), [(s, n) for s, names in CLOSED.items() for n in names], ids=lambda p: p)
@pytest.mark.slow
def test_closed_words_are_those_of_validate(section: str, name: str, tmp_path: Path) -> None:
    of_values = ("FCT005", "FCT006", "SCH")
    for value in ["auto", "dapoo", "linaer", True, False, None, *_words(name)]:
        recipe = {**RECIPE, section: {**RECIPE.get(section, {}), name: value}}
        is_marked = f"{section}.{name}" in _marked(recipe)
        refused = [f"{section}.{name}" in _refused(recipe, target, tmp_path, of_values) for target in STACKS.values()]
        assert not is_marked or refused[0], f"{value} is a value of the newest release"
        assert is_marked or value == "auto" or not all(refused), f"{value} is refused by every release"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"grpo": {"loss_type": "dapoo"}}, id="a-loss"),
        pytest.param({"training": {**RECIPE["training"], "optim": "adamw_trch"}}, id="an-optimizer"),
        pytest.param({"rewards": [{"name": "acuracy"}]}, id="a-reward"),
        pytest.param({"trl": {"sync_ref_model": "yes please"}}, id="no-boolean"),
        pytest.param({"trl": {"hub_strategy": "sometimes"}}, id="no-word"),
        pytest.param({"trl": {"log_unique_prompts": 1}}, id="a-number"),
    ],
)
def test_what_every_release_refuses_is_marked(wrong: dict[str, Any], tmp_path: Path) -> None:
    assert _marked({**RECIPE, **wrong})
    assert _refused({**RECIPE, **wrong}, NEWEST, tmp_path)


def test_every_field_under_trl_has_a_meaning_and_a_default() -> None:
    assert list(FIELDS) == FREE
    assert len(FREE) > 100
    newest = set(json.loads(TABLE.read_text()))
    for name, field in FIELDS.items():
        assert name not in newest or len(field["description"]) > 20, name
        assert ("Default: " in field["description"]) == ("default" in field) or "default" not in field, name
    assert FIELDS["ref_model_sync_steps"]["description"].endswith("Default: 512.")


def test_the_default_of_a_key_is_in_its_hover() -> None:
    grpo = SCHEMA["$defs"]["GrpoSection"]["properties"]
    assert grpo["beta"]["description"].endswith("Default: 0.0.")
    assert grpo["loss_type"]["description"].endswith('Default: "dapo".')
    assert grpo["loss_type"]["default"] == "dapo"


def test_shipped_rewards_are_offered_with_what_they_do() -> None:
    offered = SCHEMA["$defs"]["RewardSection"]["properties"]["name"]["anyOf"][0]
    assert offered["enum"] == list(shipped_rewards())
    assert offered["enumDescriptions"] == [reward.doc for reward in shipped_rewards().values()]


def test_a_documented_parameter_is_told_in_one_sentence() -> None:
    text = """Text.

    Parameters:
        > A group

        beta (`float`, *optional*, defaults to `0.0`):
            The [KL](https://x.y) weight, i.e. that of [`~a.b.Trainer`]. More of it.

        two(`int`): one line
        other (`str`):
            Common choices:
                - "x" and more
    """
    assert documented(inspect.cleandoc(text)) == {
        "beta": "The KL weight, i.e. that of `Trainer`.",
        "other": "Common choices.",
    }


@pytest.mark.stack
def test_the_meanings_are_those_of_the_tested_releases() -> None:
    assert read_installed() == json.loads(TABLE.read_text())
