"""SHM023: each hand-over of an adapter to vLLM moves the weights beneath it; `adapter_hand_over` moves none."""

from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks

TIMES = 20
MERGED = 4  # two modules in each of two layers
HAND_OVER = [stack for stack in STACKS if not stack.startswith("0.14.")]


def handed_over(laboratory: Laboratory, stack: str, shim: bool) -> dict[str, Any]:
    outcome = laboratory.run(stack, "hand_over_experiments.handed_over", times=TIMES, shim=shim)
    assert outcome.told.raised == "", outcome.output[-4000:]
    found: dict[str, Any] = outcome.result
    return found


@pytest.mark.parametrize("stack", HAND_OVER)
def test_as_released_every_adapted_weight_moves(stack: str, laboratory: Laboratory) -> None:
    found = handed_over(laboratory, stack, shim=False)
    assert (found["merged"], found["moved"]) == (MERGED, MERGED)


@pytest.mark.parametrize("stack", HAND_OVER)
def test_with_the_shim_vllm_gets_as_much_and_nothing_moves(stack: str, laboratory: Laboratory) -> None:
    found = handed_over(laboratory, stack, shim=True)
    assert found["got"] == handed_over(laboratory, stack, shim=False)["got"]
    assert (found["merged"], found["moved"], found["same"]) == (MERGED, 0, True)
