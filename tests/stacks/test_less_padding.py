"""SHM025 on a release whose loss builds logits: TRL's gradients with fewer tokens.

tests/worker/test_less_padding.py has the newest release, whose loss builds none.
"""

import pytest
from laboratory import Laboratory

pytestmark = pytest.mark.stacks
CUT = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "num_iterations": 2, "beta": 0.04}
EXACT = 3e-6


@pytest.mark.parametrize("stack", ["0.23.1/4.57.6"])
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
