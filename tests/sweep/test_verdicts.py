"""The test of a sweep: its numbers against published ones, and what it says of few seeds."""

import math
import random
import statistics

import pytest

from grpo_recipes.contract.student_t import two_sided_p
from grpo_recipes.sweep.verdicts import (
    LEVEL,
    Sample,
    SettingDifference,
    detectable,
    detectable_over_rows,
    difference,
    verdicts,
)


# Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, upper critical values.
@pytest.mark.parametrize(
    ("degrees", "p", "critical"),
    [
        (1, 0.05, 6.314),
        (1, 0.025, 12.706),
        (2, 0.025, 4.303),
        (2, 0.001, 22.327),
        (3, 0.025, 3.182),
        (4, 0.005, 4.604),
        (9, 0.025, 2.262),
        (30, 0.025, 2.042),
        (100, 0.01, 2.364),
    ],
)
def test_students_distribution_is_the_published_one(degrees: int, p: float, critical: float) -> None:
    assert two_sided_p(critical, degrees) == pytest.approx(2 * p, rel=2e-3)
    assert two_sided_p(-critical, degrees) == two_sided_p(critical, degrees)


def test_students_distribution_has_its_ends() -> None:
    assert two_sided_p(0.0, 3) == 1.0
    assert two_sided_p(math.inf, 3) == 0.0
    # One degree is Cauchy's distribution.
    assert two_sided_p(1000.0, 1) == pytest.approx(2 / math.pi * math.atan(1 / 1000), rel=1e-9)


@pytest.mark.parametrize(
    ("seeds", "pairs", "deviations"), [(2, 1, 11.5), (3, 1, 3.3), (4, 1, 2.1), (5, 1, 1.7), (10, 1, 1.0), (3, 3, 5.6)]
)
def test_four_of_five_sweeps_detect_the_difference(seeds: int, pairs: int, deviations: float) -> None:
    assert detectable(seeds, pairs) == pytest.approx(deviations, rel=0.02)
    numbers = random.Random(seeds)
    zero = samples(*[0.0] * seeds)
    p = [difference(samples(*(numbers.gauss(deviations, 1) for _ in range(seeds))), zero).p for _ in range(2000)]
    assert sum((each or 0) < LEVEL / pairs for each in p) / 2000 == pytest.approx(0.8, abs=0.03)


def test_four_of_five_sets_of_rows_detect_the_difference() -> None:
    numbers, rows = random.Random(1), 100
    by = detectable_over_rows(rows)
    assert by == pytest.approx(0.14)
    detected = 0
    for _ in range(2000):
        changes = [numbers.choices((1, -1, 0), ((0.25 + by) / 2, (0.25 - by) / 2, 0.75))[0] for _ in range(rows)]
        error = statistics.stdev(changes) / math.sqrt(rows)
        detected += sum(changes) / rows > 1.96 * error
    assert detected / 2000 == pytest.approx(0.8, abs=0.03)


def samples(*outcomes: float) -> dict[int, Sample]:
    return {seed: Sample(outcome) for seed, outcome in enumerate(outcomes)}


def test_a_difference_is_paired_by_seed() -> None:
    # Differences 0.1, 0.2, 0.3: t = 0.2 / (0.1 / sqrt 3) = 3.4641 with 2 degrees, p = 0.0742.
    one, other = samples(1.1, 5.2, 9.3), samples(1.0, 5.0, 9.0)
    found = difference(one, other)
    assert found.mean == pytest.approx(0.2)
    assert found.seed_variance == pytest.approx(0.01)
    assert found.p == pytest.approx(0.0742, abs=1e-4)
    turned = difference(other, dict(reversed(one.items())))
    assert (turned.mean, turned.p) == (pytest.approx(-0.2), found.p)


def test_the_same_outcomes_are_no_difference() -> None:
    found = difference(samples(0.5, 0.6, 0.7), samples(0.5, 0.6, 0.7))
    assert (found.mean, found.p) == (0.0, 1.0)
    assert not verdicts([found])[0].is_told


def test_one_seed_tells_nothing() -> None:
    found = difference(samples(0.1), samples(0.9))
    assert found.p is None
    assert not verdicts([found])[0].is_told


def test_the_same_difference_in_each_seed_has_no_noise_to_hold_it_against() -> None:
    assert difference(samples(0.5, 0.75), samples(0.25, 0.5)).p is None
    assert difference(samples(0.7, 0.72, 0.71), samples(0.5, 0.52, 0.51)).p is None  # but for the last bits


def with_rows(*outcomes: float, rows: int = 10) -> dict[int, Sample]:
    """Samples of runs that answered the first rows right."""
    each = [round(outcome * rows) for outcome in outcomes]
    return {seed: Sample(right / rows, (1.0,) * right + (0.0,) * (rows - right)) for seed, right in enumerate(each)}


def test_rows_add_their_own_noise() -> None:
    """Of 10 rows one was answered otherwise in each seed: other rows might have told nothing at all."""
    found = difference(with_rows(0.5, 0.5, 0.5), with_rows(0.4, 0.4, 0.4))
    assert (found.seed_variance, found.rows) == (0.0, 10)
    assert found.row_variance == pytest.approx(0.01)
    assert found.p == pytest.approx(0.3434, abs=1e-4)  # t = 1 with 9 degrees
    certain = difference(with_rows(1.0, 1.0), with_rows(0.0, 0.0))
    assert certain.row_variance == pytest.approx(0.01)  # at least that of a single row
    assert certain.p is not None and certain.p < 1e-5


def test_many_rows_do_not_make_up_for_the_noise_of_seeds() -> None:
    one, other = with_rows(0.6, 0.8, 0.7, rows=1000), with_rows(0.5, 0.5, 0.5, rows=1000)
    bare = [{seed: Sample(sample.outcome) for seed, sample in each.items()} for each in (one, other)]
    found = difference(one, other)
    assert found.p is not None and found.p >= (difference(*bare).p or 0.0) > 0.05


def test_many_rows_tell_what_the_seeds_agree_on() -> None:
    found = difference(with_rows(0.996, 0.998, 0.995, rows=1000), with_rows(0.964, 0.963, 0.962, rows=1000))
    assert found.p is not None and found.p < 0.01
    assert found.row_variance > found.seed_variance / 3


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0], ids="rows have {} of the noise".format)
def test_noise_of_seeds_and_rows_is_told_for_a_difference_in_one_of_twenty_at_most(seeds: int, share: float) -> None:
    numbers = random.Random(seeds)
    wrong = 0
    for _ in range(1500):
        by_row = [numbers.gauss(0, math.sqrt(share * 40)) for _ in range(40)]
        by_seed = [numbers.gauss(0, math.sqrt((1 - share) * seeds)) for _ in range(seeds)]
        one = {}
        for seed, shift in enumerate(by_seed):
            rows = tuple(row + shift for row in by_row)
            one[seed] = Sample(math.fsum(rows) / 40, rows)
        other = {seed: Sample(0.0, (0.0,) * 40) for seed in range(seeds)}
        p = difference(one, other).p
        wrong += p is not None and p < LEVEL
    assert wrong / 1500 < 0.07


def test_rows_that_are_not_the_same_ones_are_left_out() -> None:
    one = {seed: Sample(0.5 + seed / 10, (0.5,) * (3 + seed)) for seed in range(3)}
    assert difference(one, samples(0.1, 0.1, 0.1)).row_variance == 0.0


def test_many_comparisons_are_corrected_after_holm() -> None:
    # Raw 0.01, 0.04, 0.03 become 0.03, 0.06, 0.06.
    each = [SettingDifference(0.1, 0.01, 0.0, 3, 0, p) for p in (0.01, 0.04, 0.03)]
    assert [one.p for one in verdicts(each)] == pytest.approx([0.03, 0.06, 0.06])
    assert [one.is_told for one in verdicts(each)] == [True, False, False]
    unknown = SettingDifference(0.1, 0.0, 0.0, 3, 0, None)
    found = verdicts([unknown, each[0]])
    assert (found[0].p, found[1].p) == (None, pytest.approx(0.02))  # it was looked at all the same


def test_settings_without_a_difference_are_told_apart_in_one_of_twenty_sweeps_at_most() -> None:
    """With three settings, three seeds and noise that all runs of a seed share."""
    numbers = random.Random(1)
    wrong = 0
    for _ in range(2000):
        shared = [numbers.gauss(0, 2) for _ in range(3)]
        settings = [samples(*(one + numbers.gauss(0, 1) for one in shared)) for _ in range(3)]
        pairs = [difference(one, other) for one in settings for other in settings if one is not other]
        wrong += any(one.is_told for one in verdicts(pairs[:2] + pairs[3:4]))
    assert wrong / 2000 <= 0.06
