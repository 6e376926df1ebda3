"""pass@k is the share of all sets of k completions in which one passes."""

from itertools import combinations

import pytest

from grpo_recipes.worker.completions.intervals import pass_at


@pytest.mark.parametrize("samples", range(1, 9))
def test_it_is_the_share_of_the_sets_that_have_one_that_passes(samples: int) -> None:
    for passed in range(samples + 1):
        outcomes = [place < passed for place in range(samples)]
        for k in range(1, samples + 1):
            sets = list(combinations(outcomes, k))
            assert pass_at(samples, passed, k) == sum(map(any, sets)) / len(sets)


def test_it_is_exact_where_the_sets_are_more_than_a_float_can_count() -> None:
    assert pass_at(4000, 1, 2000) == 0.5
    assert pass_at(100_000, 1, 1) == 1e-5
    assert 0.999999 < pass_at(10_000, 100, 2000) < 1


def test_what_cannot_be_counted_is_refused() -> None:
    for samples, passed, k in ((4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)):
        with pytest.raises(ValueError, match=f"pass@{k} of {passed} passed among {samples}"):
            pass_at(samples, passed, k)
