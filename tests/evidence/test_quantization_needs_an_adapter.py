"""QNT001: a purely quantized model raises when the trainer is built, with an adapter it trains."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

WIDTHS = [
    pytest.param({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, id="nf4"),
    pytest.param({"load_in_8bit": True}, id="int8"),
]


@pytest.mark.parametrize("quantization", WIDTHS)
def test_with_an_adapter_it_is_built(library: Library, quantization: dict[str, Any]) -> None:
    lora = {"r": 4, "target_modules": "all-linear"}
    assert library.call("build", arguments={}, quantization=quantization, lora=lora).raised == ""


@pytest.mark.parametrize("quantization", WIDTHS)
def test_alone_it_raises_after_the_model_was_loaded(library: Library, quantization: dict[str, Any]) -> None:
    answer = library.call("build", arguments={}, quantization=quantization)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "You cannot perform fine-tuning on purely quantized models" in answer.text
