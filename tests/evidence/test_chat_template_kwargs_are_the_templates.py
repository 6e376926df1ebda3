"""TOK003: what apply_chat_template makes of variables that are no variables of the template."""

from typing import Any

import pytest
from library import Library

from grpo_recipes.rules.chat_template_kwargs_are_the_templates import CONTRADICT, OF_THE_CALL, PASSED

pytestmark = pytest.mark.stack

ROWS = [{"prompt": [{"role": "user", "content": "1+1="}]}] * 8


@pytest.mark.parametrize("name", PASSED)
def test_what_trl_passes_itself_raises(library: Library, name: str) -> None:
    answer = library.call("train", arguments={"chat_template_kwargs": {name: False}}, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert f"multiple values for keyword argument '{name}'" in answer.text


@pytest.mark.parametrize("name", CONTRADICT)
def test_what_contradicts_it_raises(library: Library, name: str) -> None:
    answer = library.call("train", arguments={"chat_template_kwargs": {name: True}}, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "ValueError")


def test_a_variable_that_the_template_does_not_read_changes_nothing(library: Library) -> None:
    said = [library.call("in_trl.rendered", variables=variables) for variables in ({}, {"enable_thinking": False})]
    assert said[0].result == said[1].result
    assert "1+1=" in said[0].result


def test_keywords_of_the_call_do_not_raise(library: Library) -> None:
    harmless: dict[str, Any] = dict.fromkeys(OF_THE_CALL) | {"max_length": 4, "padding": True, "truncation": True}
    answer = library.call("train", arguments={"chat_template_kwargs": harmless}, rows=ROWS)
    assert answer.raised == ""
