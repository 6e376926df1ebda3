"""RWD007: with the weight 0 nothing is trained."""

import pytest
from environment_sources import GAME
from library import Library

pytestmark = pytest.mark.stack

SIZED = {"size": 3}


@pytest.mark.parametrize(("weight", "trains"), [(0.0, False), (-1.0, True)])
def test_nothing_is_trained_by_a_reward_of_weight_zero(library: Library, weight: float, trains: bool) -> None:
    answer = library.call("train", arguments={"reward_weights": [weight]})
    assert answer.raised == ""
    assert (answer.result["moved"] > 0) == trains


def test_an_environment_with_get_reward_needs_no_other_reward(library: Library) -> None:
    found = library.call("in_tools.with_environment", environment=GAME, config=SIZED, rewards=0).result
    assert found["rewards"] == ["Game"]
    assert found["logs"][0]["reward"] == 3.0


def test_without_any_reward_the_trainer_raises(library: Library) -> None:
    source = GAME.replace("def get_reward", "def _get_reward")
    answer = library.call("in_tools.with_environment", environment=source, config=SIZED, rewards=0)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "No reward source provided" in answer.text
