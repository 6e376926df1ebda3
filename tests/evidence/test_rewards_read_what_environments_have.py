"""RWD017: what TRL does with an attribute that an environment's objects lack."""

import pytest
from environment_sources import GAME
from library import Library

pytestmark = pytest.mark.stack
SIZED = {"size": 3}


def test_an_attribute_that_nothing_sets_ends_the_training(library: Library) -> None:
    source = GAME.replace("return 3.0", "return float(self.solved)")
    answer = library.call("in_tools.with_environment", environment=source, config=SIZED)
    assert (answer.stage, answer.raised) == ("train", "AttributeError")
    assert "'Game' object has no attribute 'solved'" in answer.text


def test_a_lookup_with_a_default_rewards_every_completion_alike(library: Library) -> None:
    source = GAME.replace("return 3.0", 'return float(getattr(self, "solved", False))')
    logs = library.call("in_tools.with_environment", environment=source, config=SIZED).result["logs"]
    assert (logs[0]["rewards/Game/mean"], logs[0]["rewards/Game/std"]) == (0.0, 0.0)
