"""A trace counts what torch would hold, without holding it."""

from pathlib import Path
from typing import Any

import pytest
from traces import SMALL, traced, traces

from grpo_recipes.user_files.model_config import lora_parameter_count, parameter_count

pytestmark = pytest.mark.stack
LORA = {"r": 8, "targets": "all-linear"}
WIDE = {"hidden_size": 512, "intermediate_size": 2048, "vocab_size": 256}


@pytest.fixture(scope="module")
def results(warm_python: Path) -> dict[str, dict[str, Any]]:
    asked = {
        "full": traced(),
        "checkpointed": traced(checkpointing=True),
        "adapted": traced(lora=LORA, checkpointing=True),
        "wide": traced(WIDE),
        "packed": traced(WIDE, quantization="nf4", lora=LORA),
    }
    return dict(zip(asked, traces(list(asked.values()), python=str(warm_python / "python")), strict=True))


def test_terms_of_the_states_are_those_of_the_parameters(results: dict[str, dict[str, Any]]) -> None:
    full, adapted = results["full"], results["adapted"]
    count, trained = parameter_count(SMALL), lora_parameter_count(SMALL, 8, "all-linear")
    assert count is not None and trained is not None
    assert full["terms"]["gradients"] == 2 * count
    assert full["terms"]["optimizer"] == pytest.approx(4 * count, rel=1e-4)
    assert full["terms"]["weights"] == pytest.approx(2 * count, rel=1e-2)
    assert adapted["terms"]["adapter"] == adapted["terms"]["gradients"] == 4 * trained
    assert adapted["terms"]["weights"] == pytest.approx(2 * count + 4 * trained, rel=1e-2)


def test_checkpointing_keeps_the_inputs_of_the_layers_alone(results: dict[str, dict[str, Any]]) -> None:
    full, checkpointed = results["full"], results["checkpointed"]
    of_a_layer = 2 * 128 * 256 * 2
    kept = checkpointed["terms"]["activations"]
    assert 2 * of_a_layer < kept < 8 * of_a_layer < full["terms"]["activations"]
    assert checkpointed["peak"] < full["peak"]


def test_four_bits_are_counted_as_packed(results: dict[str, dict[str, Any]]) -> None:
    full, packed = results["wide"], results["packed"]
    assert packed["terms"]["weights"] - packed["terms"]["adapter"] < 0.4 * full["terms"]["weights"]
