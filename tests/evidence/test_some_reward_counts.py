"""RWD007: with the weight 0 nothing is trained."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("weight", "trains"), [(0.0, False), (-1.0, True)])
def test_nothing_is_trained_by_a_reward_of_weight_zero(library: Library, weight: float, trains: bool) -> None:
    answer = library.call("train", arguments={"reward_weights": [weight]})
    assert answer.raised == ""
    assert (answer.result["moved"] > 0) == trains
