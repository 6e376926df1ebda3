"""RWD006: TRL loads a reward model after the policy, with the policy's keywords."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_a_folder_that_is_not_there_raises(library: Library) -> None:
    answer = library.call("in_trl.with_reward_model", model="./nowhere", revision=None)
    assert (answer.stage, answer.raised) == ("trainer", "OSError")


def test_the_revision_of_the_policy_is_asked_of_the_reward_model(library: Library) -> None:
    answer = library.call("in_trl.with_reward_model", model="owner/reward", revision="abc")
    assert answer.text == "owner/reward at abc"
