"""A completion that no function scored is out of its group on every release; shim unscored_completions, SHM032."""

from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks
EXACT = 1e-5
MEAN = 5.125 / 8  # of the eight scored completions
OLDEST: dict[str, dict[str, Any]] = {"group": {}}
OLD: dict[str, dict[str, Any]] = {**OLDEST, "none": {"scale_rewards": False}}
NEWER: dict[str, dict[str, Any]] = {
    "group": {"loss_type": "grpo"},
    "none": {"loss_type": "grpo", "scale_rewards": "none"},
    "batch": {"loss_type": "grpo", "scale_rewards": "batch"},
}
NEWEST = {**NEWER, "normalized": {"loss_type": "grpo", "multi_objective_aggregation": "normalize_then_sum"}}


@pytest.mark.parametrize(
    ("stack", "cases"),
    [
        ("0.15.2/4.48.3", OLDEST),
        ("0.19.1/4.52.4", {"none": {"loss_type": "grpo", "scale_rewards": False}, "group": {"loss_type": "grpo"}}),
        ("0.26.2/4.57.6", NEWER),
        (STACKS[-1], NEWEST),
    ],
)
def test_the_gradient_is_that_of_the_scored_completions(
    stack: str, cases: dict[str, dict[str, Any]], laboratory: Laboratory
) -> None:
    is_newest = stack.startswith("1.")
    outcome = laboratory.run(stack, "unscored_experiments.compared", cases=cases, shim=not is_newest)
    assert outcome.result is not None, outcome.told
    for name, found in outcome.result.items():
        assert found["apart"] < EXACT, name
        assert found["figures"]["reward"] == pytest.approx(MEAN)
    if stack.startswith("0.26"):
        plain = laboratory.run(stack, "unscored_experiments.compared", cases=cases, shim=False)
        assert all(found["apart"] > 0.1 for found in plain.result.values()), "the rule has no reason"
