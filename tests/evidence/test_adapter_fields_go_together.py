"""LRA006: combinations of LoraConfig's fields that PEFT refuses, at once or after loading the model, or leaves out."""

from typing import Any

import pytest
from library import Library

from grpo_recipes.rules.adapter_fields_go_together import PARTS

pytestmark = pytest.mark.stack
REFUSED_AT_ONCE = [
    {"target_modules": "all-linear", "layers_to_transform": [0]},
    {"target_modules": "all-linear", "layers_pattern": "layers"},
    {"layers_pattern": "layers"},
    {"use_dora": True, "lora_bias": True},
    {"lora_bias": True, "init_lora_weights": "gaussian"},
]
TENSORS = {"target_parameters": ["mlp.gate_proj.weight"]}
REFUSED_WHEN_BUILT = [
    {"use_dora": True, "alora_invocation_tokens": [1]},
    {"use_dora": True, "init_lora_weights": "mica"},
    {"kasa_config": {}, "monteclora_config": {}},
    {**TENSORS, "lora_dropout": 0.1},
    {**TENSORS, "use_dora": True},
    {**TENSORS, "lora_bias": True},
    {"runtime_config": {"ephemeral_gpu_offload": True}},
    {"arrow_config": {"top_k": 1}},
]
TAKEN = [
    {"layers_to_transform": [0], "layers_pattern": "layers", "use_dora": True},
    {"lora_bias": True, "init_lora_weights": True},
    TENSORS,
]


@pytest.mark.parametrize("lora", TAKEN, ids=str)
def test_what_goes_together_is_built(library: Library, lora: dict[str, Any]) -> None:
    assert library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **lora}).raised == ""


@pytest.mark.parametrize("lora", REFUSED_AT_ONCE, ids=str)
def test_lora_config_refuses(library: Library, lora: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **lora})
    assert (answer.stage, answer.raised) == ("config", "ValueError")


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_no_map_raises(library: Library, name: str) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], name: 5})
    assert (answer.stage, answer.raised) == ("config", "TypeError")


@pytest.mark.parametrize("lora", REFUSED_WHEN_BUILT, ids=str)
def test_peft_refuses_after_the_model_was_loaded(library: Library, lora: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **lora})
    assert (answer.stage, answer.raised in ("ValueError", "AttributeError")) == ("trainer", True), answer


def test_in_inference_mode_nothing_is_trained(library: Library) -> None:
    lora = {"r": 2, "target_modules": ["q_proj"]}
    assert library.call("train", arguments={}, lora=lora).raised == ""
    off = {**lora, "inference_mode": True}
    silent = library.call("train", arguments={"gradient_checkpointing": True}, lora=off)
    assert (silent.raised, silent.result["trainable"], silent.result["moved"]) == ("", 0, 0)
    loud = library.call("train", arguments={"gradient_checkpointing": False}, lora=off)
    assert "does not require grad" in loud.text


@pytest.mark.parametrize(
    "lora", [{"loftq_config": {"loftq_bits": 4}}, {"eva_config": {}}, {"corda_config": {}}], ids=str
)
def test_settings_of_a_start_that_is_not_chosen_are_left_out(library: Library, lora: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **lora})
    assert answer.raised == ""
    assert [text for text in answer.warnings if "will be ignored" in text] != []
