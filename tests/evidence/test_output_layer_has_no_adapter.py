"""LRA010: TRL refuses an adapter on the output layer, after loading the model."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_the_output_layer_as_a_copy_is_built(library: Library) -> None:
    lora = {"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}
    assert library.call("build", arguments={}, lora=lora).raised == ""


@pytest.mark.parametrize("targets", [["q_proj", "lm_head"], "lm_head|.*q_proj"], ids=str)
def test_an_adapter_on_the_output_layer_raises(library: Library, targets: list[str] | str) -> None:
    answer = library.call("build", arguments={}, lora={"r": 2, "target_modules": targets})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "Applying a PEFT adapter to `lm_head` is not supported" in answer.text
