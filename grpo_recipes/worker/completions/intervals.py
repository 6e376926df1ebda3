"""Computes confidence intervals of means over held-out rows, by a bootstrap over the rows, and pass@k.

Rows are drawn with replacement, with all their completions, as many as there are, thousands of times; the interval
spans the middle 95 % of the means. It estimates the result on other rows of the same kind, and says nothing about
rows of a different kind or a second training.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy

LEVEL = 0.95
RESAMPLES = 2000
METHOD = "percentile bootstrap over rows"

Interval = tuple[float, float]
Column = TypeVar("Column", bound=Hashable)


def intervals(
    columns: Mapping[Column, Sequence[float | None]], seed: int, resamples: int = RESAMPLES
) -> dict[Column, Interval | None]:
    """Returns the interval of each column's mean over its rows; None if fewer than two rows have a value.

    columns: by name, one value per row, None where missing; all equally long. Each draw takes the same rows in all
    columns. seed: for the draws, which are the same in every release of numpy and use no other generator.
    """
    bounds: dict[Column, Interval | None] = dict.fromkeys(columns)
    generator = numpy.random.RandomState(seed % (1 << 32))  # draws the same numbers in all releases
    table = {
        name: numpy.array([numpy.nan if value is None else value for value in column])
        for name, column in columns.items()
        if sum(value is not None for value in column) > 1
    }
    rows = max(map(len, columns.values()), default=0)
    means: dict[Column, list[float]] = {name: [] for name in table}
    for _ in range(resamples if rows else 0):
        drawn = generator.randint(0, rows, rows)
        for name, column in table.items():
            there = column[drawn]
            there = there[~numpy.isnan(there)]
            if len(there):
                means[name].append(there.sum() / len(there))
    for name, of_column in means.items():
        low, high = numpy.quantile(of_column, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        bounds[name] = float(low), float(high)
    return bounds


def pass_at(samples: int, passed: int, k: int) -> float:
    """Returns the unbiased pass@k estimate from `samples` completions with `passed` passed: 1 - C(n-c, k) / C(n, k).

    Computed in integers and divided once, so it is the nearest float. Raises ValueError unless 0 <= passed <= samples
    and 1 <= k <= samples. Source: Chen et al. 2021, arXiv 2107.03374, equation 1.
    """
    if not (0 <= passed <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} of {passed} passed among {samples}")
    sets = math.comb(samples, k)
    return (sets - math.comb(samples - passed, k)) / sets
