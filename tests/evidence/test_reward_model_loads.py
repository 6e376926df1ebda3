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


def test_a_causal_model_gets_an_output_layer_with_random_weights(library: Library) -> None:
    assert library.call("in_model.score_with", labels=None).result["new"] == ["score.weight"]
    assert library.call("in_model.score_with", labels=1).result["new"] == []


def test_other_numbers_of_labels_raise_and_two_are_not_written(library: Library) -> None:
    answers = {labels: library.call("in_model.score_with", labels=labels) for labels in (2, 3)}
    assert {labels: answer.raised for labels, answer in answers.items()} == {2: "RuntimeError", 3: "RuntimeError"}
