"""TOL010 and TOL004: the methods of an environment that TRL tells of, and its reward."""

import pytest
from environment_sources import GAME, LOOK
from library import Library

pytestmark = pytest.mark.stack
SIZED = {"size": 3}


def test_public_methods_are_tools_and_get_reward_is_a_reward(library: Library) -> None:
    found = library.call("in_tools.with_environment", environment=GAME, config=SIZED).result
    assert found["tools"] == ["look"]
    assert found["rewards"][-1] == "Game"
    assert found["logs"][0]["rewards/Game/mean"] == 3.0


def test_a_static_method_is_a_tool_here_and_a_class_method_is_none(library: Library) -> None:
    more = '''
    @staticmethod
    def still() -> str:
        """Says it."""
        return "still"

    @classmethod
    def kinds(cls) -> str:
        """Says which."""
        return "none"
'''
    found = library.call("in_tools.with_environment", environment=GAME + more, config=SIZED).result
    assert found["tools"] == ["look", "still"]


def test_a_method_without_self_ends_the_training(library: Library) -> None:
    source = GAME.replace("def look(self)", "def look()")
    answer = library.call("in_tools.with_environment", environment=source, config=SIZED)
    assert answer.raised == "ValueError"
    assert "invalid method signature" in answer.text


def test_get_reward_is_called_without_arguments(library: Library) -> None:
    source = GAME.replace("def get_reward(self)", "def get_reward(self, completion)")
    answer = library.call("in_tools.with_environment", environment=source, config=SIZED)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert "missing 1 required positional argument: 'completion'" in answer.text


def test_of_a_tool_and_a_method_with_one_name_the_method_is_called(library: Library) -> None:
    found = library.call(
        "in_tools.with_environment", environment=GAME, config=SIZED, tools=LOOK, tool_names=["look"]
    ).result
    assert found["tools"] == ["look", "look"]
    assert found["called"] == {"look": "the method"}


@pytest.mark.parametrize(("release", "raised"), [("5.1.0", "ImportError"), ("5.2.0", "")])
def test_an_environment_needs_the_transformers_that_the_table_says(library: Library, release: str, raised: str) -> None:
    answer = library.call("in_tools.with_environment", environment=GAME, config=SIZED, release=release)
    assert answer.raised == raised


def test_plain_prompts_end_the_training(library: Library) -> None:
    rows = [{"prompt": "1+1=", "answer": "2"}] * 8
    answer = library.call("in_tools.with_environment", environment=GAME, config=SIZED, rows=rows)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
