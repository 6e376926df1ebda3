"""RWD005: a reward that returns no list raises after the first generation."""

import ast

import pytest
from library import Library

from grpo_recipes.user_files.functions.reward_body import line_of_first_return

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
        ("['good' for _ in completions]", "ValueError"),
        ("{'reward': 1.0}", "ValueError"),
        ("{text: 1.0 for text in completions}", "ValueError"),
        ("[{'score': 1.0} for _ in completions]", "TypeError"),
    ],
)
def test_what_a_reward_returns_is_one_number_for_each_completion(library: Library, returned: str, raised: str) -> None:
    source = f"def reward(completions, **kwargs):\n    return {returned}"
    answer = library.call("train", arguments={}, rewards=source)
    assert (answer.stage, answer.raised) == ("train", raised)


def test_a_return_in_the_loop_gives_one_reward_for_all(library: Library) -> None:
    late = "def reward(completions, **kwargs):\n    scores = []\n    for index, text in enumerate(completions):\n"
    late += "        scores.append(float(index))\n    return scores"
    early = late.replace("\n    return", "\n        return")
    for source, line, raised in ((late, None, ""), (early, 5, "ValueError")):
        assert line_of_first_return(ast.parse(source).body[0]) == line
        answer = library.call("train", arguments={}, rewards=source)
        assert (answer.stage, answer.raised) == ("train", raised)
    assert "returned 1 rewards, but 4 were expected" in answer.text


def test_one_reward_is_spread_over_the_batch_where_they_are_not_counted() -> None:
    import torch

    rewards = torch.zeros(4, 2)
    rewards[:, 0] = torch.tensor([3.0])  # trl 1.9.0 grpo_trainer.py _calculate_rewards
    assert rewards[:, 0].tolist() == [3.0] * 4
