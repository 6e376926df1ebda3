"""TOL005: with prompts of plain text TRL looks for tool calls in texts."""

import pytest
from library import Library
from tool_sources import ADD

pytestmark = pytest.mark.stack


def test_messages_are_looked_through_for_calls(library: Library) -> None:
    assert library.call("in_tools.train", tools=ADD, names=["add"]).raised == ""


def test_plain_prompts_end_the_training(library: Library) -> None:
    answer = library.call("in_tools.train", tools=ADD, names=["add"], rows=[{"prompt": "1+1="}] * 8)
    assert (answer.stage, answer.raised) == ("train", "AttributeError")
    assert "'get'" in answer.text
