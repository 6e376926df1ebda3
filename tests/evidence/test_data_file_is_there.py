"""DAT001: a column that is not there shows up after the model was loaded."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_rows_without_a_prompt_raise_in_the_first_step(library: Library) -> None:
    answer = library.call("train", arguments={}, rows=[{"question": "1+1="}] * 8)
    assert (answer.stage, answer.raised, answer.text) == ("train", "KeyError", "'prompt'")
