"""PRE001: what the libraries do with bf16 and fp16 on hardware that has neither."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


def _grad_norm(library: Library, arguments: dict[str, Any]) -> float:
    answer = library.call("train", arguments=arguments)
    assert answer.raised == "", answer.text
    return float(answer.result["logs"][0]["grad_norm"])


def test_both_at_once_raise_when_built(library: Library) -> None:
    answer = library.call("config", world_size=1, arguments={"bf16": True, "fp16": True}, read=[])
    assert (answer.stage, answer.raised) == ("config", "ValueError")
    assert "At most one of fp16 and bf16" in answer.text


def test_bf16_computes_other_numbers_on_the_cpu(library: Library) -> None:
    full, half = _grad_norm(library, {}), _grad_norm(library, {"bf16": True})
    assert half == pytest.approx(full, rel=0.05)
    assert half != full


def test_fp16_on_the_cpu_trains_in_full_precision_without_a_word(library: Library) -> None:
    assert _grad_norm(library, {"fp16": True}) == _grad_norm(library, {})


def test_bf16_on_an_old_gpu_raises_when_built(library: Library) -> None:
    capabilities = library.call("cuda_devices").result
    if not any(tuple(capability) < (8, 0) for capability in capabilities):
        pytest.skip(
            "needs a GPU older than Ampere; this machine has " + (str(capabilities) if capabilities else "none")
        )
    arguments = {"bf16": True, "use_cpu": False}
    answer = library.call("config", world_size=1, arguments=arguments, read=[])
    assert (answer.stage, answer.raised) == ("config", "ValueError")
