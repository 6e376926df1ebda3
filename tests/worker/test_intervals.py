"""Intervals hold what they say: 95 of 100 samples of rows have the true mean in theirs, where the rows are enough."""

from collections.abc import Callable

import numpy
import pytest

from grpo_recipes.worker.completions.intervals import intervals

Draw = Callable[["numpy.random.RandomState", int], "numpy.ndarray"]
# By name: rows of a kind, their true mean, and by the number of rows the share of intervals that have to hold it.
# Nominal is 0.95. Few rows, and few rows of the rarer kind, hold less: a sample without any says nothing of them.
KINDS: dict[str, tuple[Draw, float, dict[int, tuple[float, float]]]] = {
    "half of the rows right": (
        lambda random, rows: (random.rand(rows) < 0.5).astype(float),
        0.5,
        {20: (0.91, 0.985), 100: (0.91, 0.985)},
    ),
    "one row in ten right": (
        lambda random, rows: (random.rand(rows) < 0.1).astype(float),
        0.1,
        {20: (0.82, 0.92), 100: (0.91, 0.985)},
    ),
    "one row in fifty right": (
        lambda random, rows: (random.rand(rows) < 0.02).astype(float),
        0.02,
        {20: (0.25, 0.42), 100: (0.81, 0.92), 400: (0.91, 0.98)},
    ),
    "graded": (
        lambda random, rows: random.rand(rows),
        0.5,
        {10: (0.86, 0.95), 100: (0.91, 0.985)},
    ),
    "graded, with a long tail": (
        lambda random, rows: random.exponential(size=rows),
        1.0,
        {10: (0.80, 0.91), 100: (0.90, 0.97)},
    ),
    "the share of four completions": (
        lambda random, rows: random.binomial(4, random.beta(0.5, 0.5, rows)) / 4,
        0.5,
        {20: (0.90, 0.97), 100: (0.91, 0.985)},
    ),
}
TRIALS, DRAWS = 200, 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_covers_the_true_mean_as_often_as_it_says(kind: str) -> None:
    draw, mean, bounds = KINDS[kind]
    random = numpy.random.RandomState(3)
    for rows, (least, most) in bounds.items():
        found = [intervals({"": draw(random, rows).tolist()}, trial, DRAWS)[""] for trial in range(TRIALS)]
        covered = sum(ends is not None and ends[0] <= mean <= ends[1] for ends in found) / TRIALS
        assert least <= covered <= most, f"{covered:.3f} of {rows} rows"


def test_an_interval_is_the_same_again_and_touches_no_generator() -> None:
    rows = [0.0, 1.0, 1.0, 0.5, 0.25]
    numpy.random.seed(0)
    before = numpy.random.get_state()[1].tolist()  # type: ignore[index]
    first = intervals({"a": rows, "b": rows[::-1]}, 7)
    assert first == intervals({"a": rows, "b": rows[::-1]}, 7) != intervals({"a": rows}, 8)
    assert first["a"] == intervals({"a": rows}, 7)["a"], "the same draws, whatever stands beside"
    assert numpy.random.get_state()[1].tolist() == before  # type: ignore[index]
    # Of a generator whose draws numpy promises to keep.
    assert first["a"] == pytest.approx((0.2, 0.9))


def test_columns_are_drawn_together() -> None:
    random = numpy.random.RandomState(1)
    rows = random.rand(200)
    both = intervals({"before": rows.tolist(), "after": (rows + 0.1).tolist(), "change": [0.1] * 200}, 7)
    assert both["after"] == pytest.approx([end + 0.1 for end in both["before"] or ()])
    assert both["change"] == pytest.approx((0.1, 0.1))


def test_rows_without_a_value_are_left_out() -> None:
    known = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    found = intervals({"some": [*known, None, None], "one": [1.0, *[None] * 7], "none": [None] * 8}, 7)
    assert found["one"] is None
    assert found["none"] is None
    low, high = found["some"] or (0.0, 0.0)
    assert 0 <= low < 0.5 < high <= 1
