"""Tests whether two settings of a sweep differ beyond noise: a paired t-test over seeds with Holm's correction.

Settings are compared seed by seed, since runs with the same seed share the order of prompts and the initial weights;
the unit is the trained run. Held-out rows, which all runs share, add noise, since other rows would have given other
means. If they are known, a difference must exceed the noise of the seeds, and that of seeds and rows together, with
Welch-Satterthwaite degrees of freedom: the larger p counts. For the choice of this test, and its power with few seeds,
see benchmarks/sweep_verdicts.md.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

LEVEL = 0.05
_MOST_DEGREES = 1000
_LAST_BITS = 1e-12


class Sample(NamedTuple):
    """The outcome of one seed's run.

    rows: the mean reward of each held-out row, in order; None for a row without any reward; empty if unknown. Several
    completions of a row are one row, because they have the same prompt.
    """

    outcome: float
    rows: tuple[float | None, ...] = ()


Samples = Mapping[int, Sample]
"""The samples of a setting, by seed."""


class SettingDifference(NamedTuple):
    """The difference between two settings.

    mean: of its outcomes minus those of the other. seed_variance: of the differences between seeds. row_variance: of
    the mean, by the rows. seeds, rows: how many both have; no rows if unknown. p: None if there is no noise to compare
    the difference with.
    """

    mean: float
    seed_variance: float
    row_variance: float
    seeds: int
    rows: int
    p: float | None


class Verdict(NamedTuple):
    """A difference out of several that were tested. p: after Holm's correction, None if it cannot be tested."""

    difference: SettingDifference
    p: float | None

    @property
    def is_told(self) -> bool:
        """Whether the difference exceeds noise."""
        return self.p is not None and self.p < LEVEL


def difference(one: Samples, other: Samples) -> SettingDifference:
    """The difference of two settings that have runs with the same seeds."""
    seeds = sorted(one)
    each = [one[seed].outcome - other[seed].outcome for seed in seeds]
    mean = math.fsum(each) / len(each)
    by_row = _by_row([one[seed].rows for seed in seeds], [other[seed].rows for seed in seeds])
    # Equal differences still vary in the last bit of their outcomes.
    is_even = max(each) - min(each) <= _LAST_BITS * max(
        abs(sample.outcome) for sample in [*one.values(), *other.values()]
    )
    variance = 0.0 if len(each) < 2 or is_even else statistics.variance(each)
    found = SettingDifference(mean, variance, _row_variance(by_row), len(each), len(by_row), None)
    return found._replace(p=_p(found, any(each)))


def _p(difference: SettingDifference, is_any: bool) -> float | None:
    if difference.seeds < 2:
        return None
    if not is_any:
        return 1.0
    of_seeds, of_rows = difference.seed_variance / difference.seeds, difference.row_variance
    if of_seeds == of_rows == 0:
        return None
    both = two_sided_p(
        difference.mean / math.sqrt(of_seeds + of_rows), _degrees(of_seeds, of_rows, difference.seeds, difference.rows)
    )
    return (
        both if of_seeds == 0 else max(both, two_sided_p(difference.mean / math.sqrt(of_seeds), difference.seeds - 1))
    )


def _degrees(of_seeds: float, of_rows: float, seeds: int, rows: int) -> int:
    """The Welch-Satterthwaite degrees of freedom for the sum of two variances, rounded down."""
    parts = of_seeds**2 / (seeds - 1) + (of_rows**2 / (rows - 1) if rows > 1 else of_rows**2)
    return max(1, min(_MOST_DEGREES, int((of_seeds + of_rows) ** 2 / parts)))


def _by_row(ones: Sequence[tuple[float | None, ...]], others: Sequence[tuple[float | None, ...]]) -> list[float]:
    """The difference in each row that every run has a reward for, averaged over the seeds.

    Empty if the rows are unknown or differ.
    """
    if any(len(rows) != len(ones[0]) for rows in [*ones, *others]):
        return []
    differences = []
    for first, second in zip(zip(*ones, strict=True), zip(*others, strict=True), strict=True):
        if None not in (*first, *second):
            pairs = cast("Iterable[tuple[float, float]]", zip(first, second, strict=True))
            differences.append(math.fsum(a - b for a, b in pairs) / len(ones))
    return differences


def _row_variance(each: Sequence[float]) -> float:
    """The variance of the mean of rows, at least that of a single row; 0 without rows."""
    largest = max(map(abs, each), default=0.0) / max(1, len(each))
    return largest**2 if len(each) < 2 else max(largest**2, statistics.variance(each) / len(each))


def verdicts(differences: Sequence[SettingDifference]) -> list[Verdict]:
    """The verdicts on differences that were tested together, in order.

    Holm's correction: the chance of any false positive stays at most 1 in 20.
    """
    known = sorted((one.p, place) for place, one in enumerate(differences) if one.p is not None)
    corrected: dict[int, float] = {}
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(differences) - rank)))
        corrected[place] = highest
    return [Verdict(difference, corrected.get(index)) for index, difference in enumerate(differences)]


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of these outcomes, by Student's t.

    None for fewer than two, and for equal ones, which show no spread.
    """
    if len(values) < 2 or min(values) == max(values):
        return None
    low, high = 0.0, 20.0  # 12.7 with two values
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, len(values) - 1) > LEVEL else (low, middle)
    mean, half = math.fsum(values) / len(values), high * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


# Student's t distribution for integer degrees of freedom, where its probability is a finite sum.


def two_sided_p(t: float, degrees: int) -> float:
    """The probability of a value at least as far from 0 as t, on either side.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan2(abs(t), math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term, total = (cosine, 0.0) if is_odd else (1.0, 0.0)
    for place in range(1 if is_odd else 0, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (place + 1) / (place + 2)
    inside = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return min(1.0, max(0.0, 1.0 - inside))
