"""DAT003: what TRL makes of columns that have names of its own."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

LOOKS = "def reward(completions, {name}=None, **kwargs):\n    assert {name} != ['x'] * 4\n    return [1.0] * 4"


@pytest.mark.parametrize("name", ["prompts", "completions"])
def test_a_column_that_is_an_argument_raises(library: Library, name: str) -> None:
    answer = library.call("train", arguments={}, rows=[{"prompt": "1+1=", name: "x"}] * 8)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert f"multiple values for keyword argument '{name}'" in answer.text


@pytest.mark.parametrize("name", ["completion", "completion_ids", "trainer_state", "log_extra", "log_metric"])
def test_a_column_of_another_name_of_trl_never_arrives(library: Library, name: str) -> None:
    rows = [{"prompt": "1+1=", name: "x"}] * 8
    assert library.call("train", arguments={}, rows=rows, rewards=LOOKS.format(name=name)).raised == ""


def test_a_column_of_the_data_arrives(library: Library) -> None:
    rows = [{"prompt": "1+1=", "other": "x"}] * 8
    answer = library.call("train", arguments={}, rows=rows, rewards=LOOKS.format(name="other"))
    assert answer.raised == "AssertionError"


def test_pictures_raise_with_a_model_of_text(library: Library) -> None:
    messages = [{"role": "user", "content": "1+1="}]
    answer = library.call("train", arguments={}, rows=[{"prompt": messages, "image": "x"}] * 8)
    assert (answer.stage, answer.raised, answer.text) == ("train", "KeyError", "'pixel_values'")


def test_pictures_raise_with_plain_prompts(library: Library) -> None:
    answer = library.call("train", arguments={}, rows=[{"prompt": "1+1=", "images": ["x"]}] * 8)
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "requires conversational prompts" in answer.text
