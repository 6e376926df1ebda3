"""Which groups have no variance, whatever float32 rounds."""

import math

import pytest

pytestmark = pytest.mark.stack

NAN = math.nan


def equal(
    columns: list[list[float]], weights: list[float], normalized: bool = False, drops_unscored: bool = True
) -> list[bool]:
    """Of groups of four; columns: the rewards of each function."""
    import torch

    from grpo_recipes.worker._shared.equal_rewards import equal_groups

    rewards, factors = torch.tensor(columns, dtype=torch.float32).T, torch.tensor(weights, dtype=torch.float32)
    found = equal_groups(rewards, factors, 4, normalized=normalized, drops_unscored=drops_unscored)
    answer: list[bool] = found.tolist()
    return answer


@pytest.mark.parametrize("normalized", [False, True])
def test_the_smallest_difference_counts_and_rounding_does_not(normalized: bool) -> None:
    smallest = [1000.0, 1000.0, 1000.0, 1000.0 + 2**-14]
    assert equal([[0.2] * 4], [1.0], normalized) == [True]
    assert equal([[1.0] * 4, [1.0] * 4], [1.0, 0.2], normalized) == [True]
    assert equal([smallest], [1.0], normalized) == [False]
    assert equal([smallest, [1.0] * 4], [1.0, 1.0], normalized) == [False]
    assert equal([smallest, [1.0] * 4], [0.0, 1.0], normalized) == [True], "a weight of 0 decides nothing"
    # Two rewards that make up for each other, as floats hold them.
    assert equal([[0.3, 0.7, 0.3, 0.7], [0.7, 0.3, 0.7, 0.3]], [1.0, 1.0], normalized) == [True]
    assert equal([[0.3, 0.7, 0.3, 0.7], [0.7, 0.3, 0.7, 0.30001]], [1.0, 1.0], normalized) == [False]
    assert equal([[math.inf] * 4], [1.0], normalized) == [False], "not finite is another guard's"


def test_what_makes_up_for_each_other_depends_on_the_aggregation() -> None:
    columns = [[0.0, 1.0, 0.0, 1.0], [2.0, 0.0, 2.0, 0.0]]
    assert equal(columns, [1.0, 0.5]) == [True]
    assert equal(columns, [1.0, 0.5], normalized=True) == [False]
    assert equal([columns[0], [1.0, 0.0, 1.0, 0.0]], [1.0, 1.0], normalized=True) == [True]


def test_a_reward_that_was_not_given() -> None:
    partly = [[1.0] * 4, [0.2, NAN, 0.2, 0.2]]
    assert equal(partly, [1.0, 1.0]) == [False], "the sum leaves it out"
    assert equal(partly, [1.0, 1.0], normalized=True) == [True], "normalized it is 0, as the others"
    unscored = [[1.0, NAN, 1.0, 1.0]]
    assert equal(unscored, [1.0]) == [True]
    assert equal(unscored, [1.0], drops_unscored=False) == [False], "older releases take it for 0"
    assert equal([[NAN] * 4], [1.0]) == [True]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(
    "columns",
    [
        [[1e7, 1e7 + 1, 1e7, 1e7 + 1], [0.0, 0.0, 1.0, 1.0]],
        [[3e7, 3e7 + 4, 3e7, 3e7 + 4], [0.0, 0.0, 2.0, 2.0]],
        [[1e5, 1e5 + 0.01, 1e5, 1e5], [0.0, 0.0, 1.0, 1.0]],
        [[-1e7, -1e7 - 1, -1e7, -1e7 - 1], [0.0, 0.0, 0.0, 1.0]],
    ],
)
def test_a_difference_of_large_rewards_counts(columns: list[list[float]], normalized: bool) -> None:
    assert equal(columns, [1.0, 1.0], normalized) == [False]
    assert equal(columns, [0.3, 0.7], normalized) == [False]


def test_what_trl_does_not_see_has_no_variance() -> None:
    varying = [0.0, 1.0, 2.0, 0.0]
    for columns, weights in (
        ([[1e9] * 4, varying], [1.0, 1.0]),
        ([varying, [1.0] * 4], [1e-3, 1e6]),
        ([[1e-30 * value for value in varying]], [1.0]),
        ([varying], [1e-12]),
    ):
        assert equal(columns, weights) == [True], weights
    assert equal([[1e9] * 4, varying], [1.0, 1.0], normalized=True) == [False], "each is centered on its own"
    assert equal([[1e9] * 4, [100.0 * value for value in varying]], [1.0, 1.0]) == [False]
    assert equal([[1e-6 * value for value in varying]], [1.0]) == [False]
