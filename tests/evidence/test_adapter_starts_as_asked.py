"""LRA007: starts of an adapter that PEFT does not make without help, or not on quantized weights."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack
PLAIN = {"r": 2, "target_modules": ["q_proj"]}
WIDTHS = [
    pytest.param({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, id="nf4"),
    pytest.param({"load_in_8bit": True}, id="int8"),
]


@pytest.mark.parametrize("start", [True, "gaussian", "pissa", "pissa_niter_4", "olora", "orthogonal", "mica"], ids=str)
def test_a_start_that_needs_no_help_gives_the_model(library: Library, start: Any) -> None:
    answer = library.call("in_model.adapt", lora={**PLAIN, "init_lora_weights": start})
    assert (answer.raised, answer.result["start"] < 1e-4) == ("", True)


@pytest.mark.parametrize("start", ["pisa", "pissa_niter_x", "corda"])
def test_an_unknown_or_unprepared_start_raises_after_the_model_was_loaded(library: Library, start: str) -> None:
    answer = library.call("in_model.adapt", lora={**PLAIN, "init_lora_weights": start})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")


@pytest.mark.parametrize("start", ["eva", "lora_ga"])
def test_an_unprepared_start_is_drawn_like_the_ordinary_one(library: Library, start: str) -> None:
    ordinary = library.call("in_model.first_adapter", lora=PLAIN).result
    drawn = library.call("in_model.first_adapter", lora={**PLAIN, "init_lora_weights": start}).result
    prepared = library.call("in_model.first_adapter", lora={**PLAIN, "init_lora_weights": "olora"}).result
    of_a, of_b = sorted(ordinary)
    assert (drawn[of_b], ordinary[of_b], prepared[of_b] > 1.0) == (0.0, 0.0, True)
    assert drawn[of_a] == pytest.approx(ordinary[of_a], rel=0.2)


def test_an_odd_rank_has_no_orthogonal_start(library: Library) -> None:
    answer = library.call("in_model.adapt", lora={**PLAIN, "r": 5, "init_lora_weights": "orthogonal"})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")


def test_a_random_adapter_changes_the_model(library: Library) -> None:
    assert library.call("in_model.adapt", lora={**PLAIN, "init_lora_weights": False}).result["start"] > 1e-2


@pytest.mark.parametrize("quantization", WIDTHS)
@pytest.mark.parametrize("start", ["pissa", "orthogonal", "mica"])
def test_a_start_from_the_weights_fails_on_quantized_ones(
    library: Library, quantization: dict[str, Any], start: str
) -> None:
    lora = {**PLAIN, "init_lora_weights": start}
    answer = library.call("in_model.first_adapter", lora=lora, quantization=quantization)
    assert (answer.stage, answer.raised in ("TypeError", "RuntimeError")) == ("trainer", True)


@pytest.mark.parametrize("quantization", WIDTHS)
@pytest.mark.parametrize("start", [True, "gaussian", "olora"], ids=str)
def test_other_starts_work_on_quantized_weights(library: Library, quantization: dict[str, Any], start: Any) -> None:
    lora = {**PLAIN, "init_lora_weights": start}
    assert library.call("in_model.first_adapter", lora=lora, quantization=quantization).raised == ""
