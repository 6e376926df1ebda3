"""RWD005: a reward that returns no list raises after the first generation."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("returned", "raised"),
    [
        ("[1.0 for _ in completions]", ""),
        ("(1.0 for _ in completions)", ""),
        ("1.0", "TypeError"),
        ("len(completions)", "TypeError"),
        ("sum(len(text) for text in completions) / len(completions)", "TypeError"),
        ("sum([__import__('numpy').ones(len(completions))] * 2) / 2", ""),
        ("None", "TypeError"),
        ("'text'", "ValueError"),
        ("f'{len(completions)}'", "ValueError"),
    ],
)
def test_what_a_reward_returns_is_one_number_for_each_completion(library: Library, returned: str, raised: str) -> None:
    source = f"def reward(completions, **kwargs):\n    return {returned}"
    answer = library.call("train", arguments={}, rewards=source)
    assert (answer.stage, answer.raised) == ("train", raised)
