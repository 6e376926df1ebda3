"""GEN006: the ratio is 1 for the policy's own samples, and below it as soon as sampling is truncated."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


def _first_step(library: Library, **arguments: Any) -> dict[str, float]:
    answer = library.call("in_vllm.train_with_vllm", arguments={"seed": 1, **arguments})
    assert answer.raised == "", answer.text
    logs: dict[str, float] = answer.result["logs"][0]
    return logs


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_over_all_tokens_the_ratio_is_1(library: Library, temperature: float) -> None:
    step = _first_step(library, temperature=temperature)
    for which in ("min", "mean", "max"):
        assert step[f"sampling/importance_sampling_ratio/{which}"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    "sampling", [{"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.3}, {"repetition_penalty": 1.5}], ids=str
)
def test_truncated_it_is_below_1_for_every_sequence(library: Library, sampling: dict[str, Any]) -> None:
    assert _first_step(library, **sampling)["sampling/importance_sampling_ratio/max"] < 0.9


def test_the_product_over_a_sequence_takes_the_gradient_away(library: Library) -> None:
    whole, of_tokens = (
        _first_step(library),
        _first_step(library, top_k=5, vllm_importance_sampling_mode="token_truncate"),
    )
    assert _first_step(library, top_k=5)["grad_norm"] < 0.01 * of_tokens["grad_norm"]
    assert of_tokens["grad_norm"] < 0.7 * whole["grad_norm"]
