"""LRA003: PEFT is silent about a name that is not there as long as another one is found."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack
LAYERS = [f"model.layers.{n}.self_attn" for n in range(2)]


def _adapted(library: Library, **lora: Any) -> list[str]:
    answer = library.call("in_model.adapt", lora={"r": 2, **lora})
    assert answer.raised == "", answer.text
    return [*answer.result["adapted"]]


def test_right_names_are_all_adapted(library: Library) -> None:
    both = [f"{layer}.{name}" for layer in LAYERS for name in ("q_proj", "v_proj")]
    assert _adapted(library, target_modules=["q_proj", "self_attn.v_proj"]) == both
    assert _adapted(library, target_modules=r".*\.(q|v)_proj") == both


def test_a_misspelt_name_among_right_ones_is_passed_over_in_silence(library: Library) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_prj", "v_proj"]})
    assert answer.result["adapted"] == [f"{layer}.v_proj" for layer in LAYERS]
    assert [text for text in answer.warnings if "q_prj" in text] == []


@pytest.mark.parametrize(
    "targets", [["q_prj"], ["query_key_value"], [".*q_proj"], "q_proj", "q_proj,v_proj", "(q|v)_proj", []], ids=str
)
def test_names_that_find_nothing_raise_after_the_model_was_loaded(library: Library, targets: Any) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": targets})
    assert (answer.stage, answer.raised) == ("trainer", "NoMatchingPeftModuleError")


@pytest.mark.parametrize("targets", [["q_proj", "input_layernorm"], ["self_attn"], ["q_proj", "mlp"]], ids=str)
def test_what_is_no_linear_layer_raises(library: Library, targets: list[str]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": targets})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "is not supported" in answer.text


def test_a_pattern_that_is_none_raises(library: Library) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": "*_proj"})
    assert "nothing to repeat" in answer.text


@pytest.mark.parametrize(
    "further", [{"modules_to_save": ["lm_haed"]}, {"exclude_modules": ["k_prj"]}, {"target_parameters": ["gate.weigt"]}]
)
def test_other_names_that_find_nothing_change_nothing(library: Library, further: dict[str, Any]) -> None:
    plain = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"]})
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **further})
    assert answer.raised == ""
    assert (answer.result["adapted"], answer.result["trained"]) == (plain.result["adapted"], plain.result["trained"])


def test_a_name_that_is_found_trains_the_whole_module(library: Library) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]})
    assert answer.result["trained"] == ["lm_head.modules_to_save.default.weight"]


def test_tokens_of_an_unknown_embedding_raise(library: Library) -> None:
    lora = {"r": 2, "target_modules": ["q_proj"], "trainable_token_indices": {"embed": [1]}}
    assert library.call("in_model.adapt", lora=lora).raised == "ValueError"


def test_names_of_experts_become_those_of_their_fused_tensors(library: Library) -> None:
    lora = {"r": 2, "target_modules": ["gate_proj", "up_proj", "down_proj"]}
    answer = library.call("in_model.adapt", lora=lora, experts=True)
    assert answer.result["adapted"] == ["model.layers.0.mlp.experts", "model.layers.0.mlp.experts.base_layer"]
