"""SHM025: on every release that has the place for it, the shim has TRL's gradients with fewer tokens."""

import pytest
from environments import STACKS
from laboratory import Laboratory

from grpo_recipes.facts.released.windows import is_within

pytestmark = pytest.mark.stacks
RELEASES = [stack for stack in STACKS if is_within(stack.partition("/")[0], ">=0.20")]
CUT = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "num_iterations": 2, "beta": 0.04}
EXACT = 3e-6


@pytest.mark.parametrize("stack", RELEASES)
def test_the_gradient_is_that_of_trl(stack: str, laboratory: Laboratory) -> None:
    cases = {
        "grpo": {**CUT, "loss_type": "grpo"},
        "dr_grpo": {**CUT, "loss_type": "dr_grpo"},
        "masked": {**CUT, "loss_type": "grpo", "mask_truncated_completions": True},
        "bnpo": {**CUT, "loss_type": "bnpo"},
    }
    outcome = laboratory.run(stack, "padding_experiments.compared", cases=cases)
    assert outcome.result is not None, outcome.told
    for name, found in outcome.result.items():
        assert max(found["packed"]["apart"]) < EXACT
        assert (max(found["sorted"]["apart"]) < EXACT) == (name != "bnpo")
        assert found["sorted"]["share"] < found["packed"]["share"] < 0.9
        whole, own = found["whole"]["figures"], found["sorted"]["figures"]
        assert own["kl"] == pytest.approx(whole["kl"], rel=1e-4) or name == "bnpo"
