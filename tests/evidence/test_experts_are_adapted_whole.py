"""LRA011: PEFT puts one adapter on the tensor of all experts, and refuses half of it, dropout and DoRA."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "lora",
    [
        {"target_modules": ["q_proj", "gate_proj", "up_proj", "down_proj"]},
        {"target_modules": "all-linear"},
        {"target_modules": ["q_proj"], "lora_dropout": 0.1},
    ],
    ids=str,
)
def test_whole_tensors_and_attention_alone_are_adapted(library: Library, lora: dict[str, Any]) -> None:
    assert library.call("in_model.adapt", lora={"r": 2, **lora}, experts=True).raised == ""


@pytest.mark.parametrize(
    "lora",
    [
        {"target_modules": ["q_proj", "gate_proj"]},
        {"target_modules": ["mlp.up_proj"]},
        {"target_modules": "all-linear", "lora_dropout": 0.1},
        {"target_modules": ["down_proj"], "lora_dropout": 0.1},
        {"target_modules": "all-linear", "use_dora": True},
    ],
    ids=str,
)
def test_what_a_fused_tensor_cannot_have_raises_after_loading(library: Library, lora: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, **lora}, experts=True)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
