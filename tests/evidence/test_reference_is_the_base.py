"""LRA008: with the adapter off, the model is not always the one that was loaded."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack
PLAIN = {"r": 2, "target_modules": ["q_proj", "v_proj"]}


@pytest.mark.parametrize("start", [True, "gaussian", "orthogonal", "mica", False], ids=str)
def test_without_the_adapter_it_is_the_model(library: Library, start: Any) -> None:
    answer = library.call("in_model.adapt", lora={**PLAIN, "init_lora_weights": start})
    assert answer.result["disabled"] == 0.0


@pytest.mark.parametrize(
    "further", [{"init_lora_weights": "pissa"}, {"init_lora_weights": "pissa_niter_4"}, {"init_lora_weights": "olora"}]
)
def test_a_start_that_takes_weights_out_leaves_another_model(library: Library, further: dict[str, Any]) -> None:
    result = library.call("in_model.adapt", lora={**PLAIN, **further}).result
    assert result["start"] < 1e-4  # with the adapter it is the model as it was loaded
    assert result["disabled"] > 1e-2


def test_kasa_leaves_another_model(library: Library) -> None:
    assert library.call("in_model.adapt", lora={**PLAIN, "kasa_config": {}}).result["disabled"] > 1e-4


def test_an_untrained_policy_is_far_from_its_reference(library: Library) -> None:
    arguments = {"beta": 0.1, "learning_rate": 0.0}
    far = library.call("train", arguments=arguments, lora={**PLAIN, "init_lora_weights": "olora"})
    near = library.call("train", arguments=arguments, lora=PLAIN)
    assert abs(near.result["logs"][0]["kl"]) < 1e-6
    assert far.result["logs"][0]["kl"] > 1e-3


@pytest.mark.parametrize("bias", ["all", "lora_only"])
def test_biases_are_trained_in_the_base(library: Library, bias: str) -> None:
    trained = library.call("in_model.adapt", lora={**PLAIN, "bias": bias}).result["trained"]
    assert "model.layers.0.self_attn.q_proj.base_layer.bias" in trained
