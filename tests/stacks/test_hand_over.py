"""SHM023 on trl 0.15, which hands vLLM a state_dict; tests/worker/test_shim_adapter_hand_over.py has later releases."""

from typing import Any

import pytest
from laboratory import Laboratory

pytestmark = pytest.mark.stacks

TIMES = 20
MERGED = 4  # two modules in each of two layers


def handed_over(laboratory: Laboratory, stack: str, shim: bool) -> dict[str, Any]:
    outcome = laboratory.run(stack, "hand_over_experiments.handed_over", times=TIMES, shim=shim)
    assert outcome.told.raised == "", outcome.output[-4000:]
    found: dict[str, Any] = outcome.result
    return found


@pytest.mark.parametrize("stack", ["0.15.2/4.48.3"])
def test_vllm_gets_as_much_and_nothing_moves_with_the_shim_alone(stack: str, laboratory: Laboratory) -> None:
    without, with_it = (handed_over(laboratory, stack, shim) for shim in (False, True))
    assert (without["merged"], without["moved"]) == (MERGED, MERGED)
    assert (with_it["merged"], with_it["moved"], with_it["same"]) == (MERGED, 0, True)
    assert with_it["got"] == without["got"]
