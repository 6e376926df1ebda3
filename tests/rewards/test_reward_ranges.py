"""The ranges of the shipped rewards against what they give."""

import pytest

from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.rewards.ranges import reward_range
from grpo_recipes.rewards.repetition_penalty import repetition_penalty
from grpo_recipes.rewards.soft_overlong_punishment import soft_overlong_punishment


def test_every_reward_has_a_range_unless_its_scorer_decides() -> None:
    assert {name for name in shipped_rewards() if reward_range(name, {}) is None} == {"reasoning_gym"}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("accuracy", {}, (0.0, 1.0)),
        ("repetition_penalty", {}, (-1.0, 0.0)),
        ("repetition_penalty", {"max_penalty": -2}, (-2.0, 0.0)),
        ("soft_overlong_punishment", {"soft_punish_cache": 5}, (-1.0, 0.0)),
        ("cosine_scaled", {}, (-1.0, 1.0)),
        ("cosine_scaled", {"min_value_wrong": 0, "max_value_wrong": 0, "max_value_correct": 2}, (0.0, 2.0)),
        ("cosine_scaled", {"max_value_correct": "high"}, None),
        ("repetition_penalty", {"max_penalty": True}, None),
        ("rewards", {}, None),
        ("ranges", {}, None),
    ],
)
def test_a_range_follows_the_options(name: str, options: dict[str, object], expected: object) -> None:
    assert reward_range(name, options) == expected


def test_penalties_reach_both_ends_of_their_range() -> None:
    texts, ids = ["", ""], [[1, 2, 3], [1] * 4000]
    given = repetition_penalty(texts, completion_ids=ids, max_penalty=-2.0)
    assert given[0] == 0.0 and given[1] == pytest.approx(-2.0, abs=0.01)
    assert soft_overlong_punishment(texts, completion_ids=ids, soft_punish_cache=5, max_completion_len=20) == [0, -1]
