"""DAT010: reasoning-gym itself refuses what is no task, key or value, when it makes the rows."""

from typing import Any

import pytest

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("name", "config", "raised"),
    [
        ("chain_sums", {}, ValueError),
        ("chain_sum", {"min_term": 3}, TypeError),
        ("leg_counting", {"allow_negation": True}, TypeError),
        ("chain_sum", {"min_terms": "two"}, TypeError),
    ],
)
def test_it_raises(name: str, config: dict[str, Any], raised: type[Exception]) -> None:
    from reasoning_gym import create_dataset

    with pytest.raises(raised):
        list(create_dataset(name, size=2, seed=1, **config))


def test_a_task_twice_and_a_weight_of_nothing_are_refused_in_a_composite() -> None:
    from reasoning_gym import create_dataset
    from reasoning_gym.composite import DatasetSpec

    def composite(*tasks: tuple[str, float]) -> object:
        return create_dataset("composite", size=2, seed=1, datasets=[DatasetSpec(*task, {}) for task in tasks])

    with pytest.raises(ValueError, match="Duplicate"):
        composite(("chain_sum", 1), ("chain_sum", 1))
    with pytest.raises(AssertionError, match="Weight"):
        composite(("chain_sum", 0))
