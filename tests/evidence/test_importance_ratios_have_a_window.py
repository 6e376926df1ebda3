"""GEN005: what GRPOConfig and GRPOTrainer raise, and what windows without the ratio 1 do to the gradient."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

NAME = "vllm_importance_sampling_"


def _window(**values: Any) -> dict[str, Any]:
    return {NAME + name: value for name, value in values.items()}


def _gradient(library: Library, **values: Any) -> float:
    answer = library.call("in_vllm.train_with_vllm", arguments={"seed": 1, **_window(**values)})
    assert answer.raised == "", answer.text
    return float(answer.result["logs"][0]["grad_norm"])


@pytest.mark.parametrize(
    "values", [{"clip_min": 3.0}, {"mode": "token_truncate", "clip_max": None}], ids=["no room", "no bounds"]
)
def test_grpo_config_raises_with_and_without_vllm(library: Library, values: dict[str, Any]) -> None:
    answer = library.call("config", world_size=1, arguments=_window(**values), read=[])
    assert (answer.stage, answer.raised) == ("config", "ValueError")
    assert library.call("config", world_size=1, arguments=_window(clip_min=2.9), read=[]).raised == ""


def test_vespo_needs_a_mode_per_token(library: Library) -> None:
    answer = library.call("in_vllm.train_with_vllm", arguments={"loss_type": "vespo"})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    arguments = {"loss_type": "vespo", **_window(mode="token_mask")}
    assert library.call("in_vllm.train_with_vllm", arguments=arguments).raised == ""


@pytest.mark.parametrize("values", [{"clip_max": 0.5}, {"clip_min": 1.5}], ids=str)
def test_a_mask_without_the_ratio_1_drops_everything(library: Library, values: dict[str, Any]) -> None:
    assert _gradient(library) > 0.1
    assert _gradient(library, **values) == 0
    assert _gradient(library, mode="token_truncate", **values) > 0.1


def test_a_ratio_cut_off_below_0_turns_the_gradient_around(library: Library) -> None:
    arguments = {"seed": 1, **_window(mode="token_truncate", clip_max=-1.0)}
    answer = library.call("in_vllm.train_with_vllm", arguments=arguments)
    assert answer.result["logs"][0]["sampling/importance_sampling_ratio/mean"] == -1
    assert answer.result["logs"][0]["grad_norm"] > 0.1
