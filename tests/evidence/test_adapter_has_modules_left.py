"""LRA014: PEFT raises when everything is left out."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.mark.parametrize("excluded", [["self_attn"], ["v_proj"], ".*layers.0.*"], ids=str)
def test_what_is_left_is_adapted(library: Library, excluded: Any) -> None:
    lora = {"r": 2, "target_modules": ["q_proj", "v_proj"], "exclude_modules": excluded}
    assert library.call("in_model.adapt", lora=lora).result["adapted"]


@pytest.mark.parametrize(
    ("targets", "excluded"),
    [(["q_proj", "v_proj"], ["v_proj", "q_proj", "o_proj"]), ("all-linear", LINEAR), (["q_proj"], ".*_proj")],
    ids=str,
)
def test_nothing_left_raises(library: Library, targets: Any, excluded: Any) -> None:
    lora = {"r": 2, "target_modules": targets, "exclude_modules": excluded}
    answer = library.call("in_model.adapt", lora=lora)
    assert answer.stage == "trainer"
    assert "No modules were targeted for adaptation" in answer.text
