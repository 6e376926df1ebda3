"""GRP001: where sampling leaves one token, no reward differs and nothing is trained."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("sampling", [{"top_k": 1}, {"min_p": 1.0}, {"temperature": 0.001}, {"top_p": 0.01}], ids=str)
def test_nothing_is_trained(library: Library, sampling: dict[str, float]) -> None:
    answer = library.call("train", arguments=sampling)
    assert (answer.raised, answer.result["moved"]) == ("", 0)
    assert answer.result["logs"][0]["frac_reward_zero_std"] == 1.0


def test_with_two_tokens_something_is(library: Library) -> None:
    answer = library.call("train", arguments={"top_k": 2, "max_completion_length": 16})
    assert answer.result["moved"] > 0
