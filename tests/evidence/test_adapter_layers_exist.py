"""LRA005: a layer that the model has not is passed over."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("layers", "adapted"), [([0, 1], [0, 1]), (1, [1]), ([1, 2], [1]), ([0, -1], [0])], ids=str)
def test_layers_that_are_not_there_are_left_out_in_silence(library: Library, layers: Any, adapted: list[int]) -> None:
    lora = {"r": 2, "target_modules": ["q_proj"], "layers_to_transform": layers}
    answer = library.call("in_model.adapt", lora=lora)
    assert answer.result["adapted"] == [f"model.layers.{n}.self_attn.q_proj" for n in adapted]


@pytest.mark.parametrize(
    "further",
    [{"layers_to_transform": [2]}, {"layers_to_transform": -1}, {"layers_to_transform": [0], "layers_pattern": "h"}],
    ids=str,
)
def test_no_layer_at_all_raises_after_the_model_was_loaded(library: Library, further: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **further})
    assert (answer.stage, answer.raised) == ("trainer", "NoMatchingPeftModuleError")
