"""QNT004: what transformers does with `quantization` on a checkpoint that is quantized already."""

from typing import Any

import pytest
from library import Library

from grpo_recipes.rules.model_is_quantized_once import BY_ADAPTER, NEVER_TRAINED

pytestmark = pytest.mark.stack
FP4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}


def test_the_values_of_the_checkpoint_win_with_a_warning(library: Library) -> None:
    other = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    answer = library.call("in_model.load_quantized_checkpoint", method=FP4, quantization=other)
    assert answer.raised == "", answer.text
    assert answer.result["bnb_4bit_quant_type"] == "fp4"
    assert [text for text in answer.warnings if "The `quantization_config` from the model will be used" in text] != []


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8"])
def test_another_method_raises_while_loading(library: Library, method: str) -> None:
    written = {"quant_method": method, "bits": 4}
    answer = library.call("in_model.load_quantized_checkpoint", method=written, quantization={"load_in_4bit": True})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "but you are passing a BitsAndBytesConfig config" in answer.text


def test_the_methods_that_are_never_trained_are_those_of_transformers(library: Library) -> None:
    trained: dict[str, Any] = library.call("in_model.trained_methods").result
    assert [name for name in NEVER_TRAINED if trained[name]] == []
    assert [name for name in BY_ADAPTER if not trained.get(name, True)] == []
