"""DAT004: which prompts of the rows TRL takes."""

from typing import Any

import pytest
from library import Library

from grpo_recipes.contract.prompt_shape import wrong_prompt

pytestmark = pytest.mark.stack

MESSAGE = {"role": "user", "content": "1+1="}


@pytest.mark.parametrize(
    "prompt",
    [
        "1+1=",
        [MESSAGE],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "1+1="}]}],
    ],
    ids=str,
)
def test_texts_and_messages_are_trained_on(library: Library, prompt: Any) -> None:
    assert wrong_prompt(prompt) is None
    assert library.call("train", arguments={}, rows=[{"prompt": prompt}] * 8).raised == ""


@pytest.mark.parametrize(
    ("prompt", "raised"),
    [
        ([{"from": "human", "value": "1+1="}], "ValueError"),
        (None, "ValueError"),
        ([], "IndexError"),
        (5, "ValueError"),
        (["1+1="], "TypeError"),
        (MESSAGE, "ValueError"),
        ([{"role": "user", "text": "1+1="}], "KeyError"),
        ([{"role": "user", "content": [{"type": "image", "text": "x"}]}], "KeyError"),
    ],
    ids=str,
)
def test_others_end_the_first_generation(library: Library, prompt: Any, raised: str) -> None:
    assert wrong_prompt(prompt) is not None
    answer = library.call("train", arguments={}, rows=[{"prompt": prompt}] * 8)
    assert (answer.stage, answer.raised) == ("train", raised)
