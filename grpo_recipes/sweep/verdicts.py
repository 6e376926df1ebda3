"""Tests whether two settings of a sweep differ beyond noise: a paired t-test over seeds with Holm's correction.

Settings are compared seed by seed, since runs with the same seed share the order of prompts and the initial weights;
the unit is the trained run. Held-out rows, which all runs share, add noise, since other rows would have given other
means. If they are known, a difference must exceed the noise of the seeds, and that of seeds and rows together, with
Welch-Satterthwaite degrees of freedom: the larger p counts. For the choice of this test, and its power with few seeds,
see benchmarks/sweep_verdicts.md.
"""

import math
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from grpo_recipes.contract.student_t import critical_t, two_sided_p

LEVEL = 0.05
_MOST_DEGREES = 1000
_LAST_BITS = 1e-12
_POWER = 0.8


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


def difference(samples: Samples, other: Samples) -> SettingDifference:
    """The difference of two settings that have runs with the same seeds."""
    seeds = sorted(samples)
    each = [samples[seed].outcome - other[seed].outcome for seed in seeds]
    mean = math.fsum(each) / len(each)
    by_row = _by_row([samples[seed].rows for seed in seeds], [other[seed].rows for seed in seeds])
    # Equal differences still vary in the last bit of their outcomes.
    is_even = max(each) - min(each) <= _LAST_BITS * max(
        abs(sample.outcome) for sample in [*samples.values(), *other.values()]
    )
    variance = 0.0 if len(each) < 2 or is_even else statistics.variance(each)
    without_p = SettingDifference(mean, variance, _row_variance(by_row), len(each), len(by_row), None)
    return without_p._replace(p=_p(without_p, any(each)))


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
    known = sorted((difference.p, index) for index, difference in enumerate(differences) if difference.p is not None)
    corrected: dict[int, float] = {}
    highest = 0.0
    for rank, (p, index) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(differences) - rank)))
        corrected[index] = highest
    return [Verdict(difference, corrected.get(index)) for index, difference in enumerate(differences)]


def mean_interval(
    values: Sequence[float], limits: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float] | None:
    """The 95 % interval of the mean of these outcomes, by Student's t, without what lies outside the limits.

    None for fewer than two, and for equal ones, which show no spread.
    """
    if len(values) < 2 or min(values) == max(values):
        return None
    half = critical_t(LEVEL, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = math.fsum(values) / len(values)
    return max(mean - half, limits[0]), min(mean + half, limits[1])


def detectable(seeds: int, pairs: int) -> float:
    """The difference that four of five sweeps detect, in standard deviations between two runs of the same seed.

    pairs: of settings that are tested together. Assumes normal differences; see the power in
    benchmarks/sweep_verdicts.md.
    """
    degrees = seeds - 1
    critical = critical_t(LEVEL / pairs, degrees)
    # The measured deviation of the differences, relative to the true one: the root of chi squared over its degrees.
    deviations = [(step + 0.5) / 200 for step in range(1200)]
    logs = [(degrees - 1) * math.log(each) - degrees * each * each / 2 for each in deviations]
    weights = [math.exp(each - max(logs)) for each in logs]
    low, high = 0.0, 4 * critical
    while high - low > 1e-3:
        middle = (low + high) / 2
        chances = (_normal(middle * math.sqrt(seeds) - critical * each) for each in deviations)
        power = math.fsum(map(operator.mul, weights, chances)) / math.fsum(weights)
        low, high = (middle, high) if power < _POWER else (low, middle)
    return high


def _normal(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2))


def detectable_over_rows(rows: int) -> float:
    """The difference of a reward of 0 to 1 that four of five sets of rows detect if a quarter of the rows change."""
    changed = 0.25
    quantiles = 1.96 + 0.84
    return quantiles * math.sqrt(changed / rows)
