"""Simulates sweeps to see how often tests call a difference told, where there is none and where there is one.

    python benchmarks/sweep_verdicts.py [--sweeps 4000]

Prints the tables of benchmarks/sweep_verdicts.md. "paired" is what grpo-run does; the others are what it could do.
"""

import argparse
import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

from grpo_recipes.contract.student_t import two_sided_p
from grpo_recipes.sweep.verdicts import (
    LEVEL,
    Sample,
    SettingDifference,
    difference,
    verdicts,
)

Outcomes = list[list[float]]
Noise = Callable[[random.Random, int, int], Outcomes]
ROWS = 40


def equal(numbers: random.Random, settings: int, seeds: int) -> Outcomes:
    """The same normal noise in each run."""
    return [[numbers.gauss(0, 1) for _ in range(seeds)] for _ in range(settings)]


def shared(numbers: random.Random, settings: int, seeds: int) -> Outcomes:
    """Noise of which most is that of the seed, in all settings."""
    own = [numbers.gauss(0, 2) for _ in range(seeds)]
    return [[one + numbers.gauss(0, 1) for one in own] for _ in range(settings)]


def unequal(numbers: random.Random, settings: int, seeds: int) -> Outcomes:
    """Two settings with much noise, all others with little."""
    return [[numbers.gauss(0, 1 if place < 2 else 0.05) for _ in range(seeds)] for place in range(settings)]


def collapsing(numbers: random.Random, settings: int, seeds: int) -> Outcomes:
    """One run in seven collapses, the others hardly differ."""
    return [[-3.0 if numbers.random() < 0.15 else numbers.gauss(0, 0.3) for _ in range(seeds)] for _ in range(settings)]


NOISES: dict[str, Noise] = {"equal": equal, "shared by a seed": shared, "unequal": unequal, "collapsing": collapsing}


def _samples(outcomes: Sequence[float]) -> dict[int, Sample]:
    return {seed: Sample(outcome) for seed, outcome in enumerate(outcomes)}


def _corrected(each: Sequence[float | None]) -> list[float | None]:
    return [one.p for one in verdicts([SettingDifference(1.0, 1.0, 0.0, 3, 0, p) for p in each])]


def paired(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The test of grpo-run."""
    return difference(_samples(one), _samples(other)).p


def welch(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Welch's t-test, which knows no pairs."""
    parts = [statistics.variance(each) / len(each) for each in (one, other)]
    if sum(parts) == 0:
        return None
    degrees = max(1, int(sum(parts) ** 2 / sum(part**2 / (len(one) - 1) for part in parts)))
    return two_sided_p((statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(sum(parts)), degrees)


def sign_flips(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The exact permutation test of pairs."""
    each = [a - b for a, b in zip(one, other, strict=True)]
    sums = [abs(sum(sign * value for sign, value in zip(signs, each, strict=True))) for signs in _signs(len(each))]
    return sum(total >= sums[0] - 1e-12 for total in sums) / len(sums)


def _signs(count: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, -1), repeat=count))


def pooled(settings: Outcomes) -> list[float | None]:
    """All pairs, with one noise for all settings: what is left of settings and seeds in an analysis of variance."""
    seeds = len(settings[0])
    of_setting = [statistics.fmean(each) for each in settings]
    of_seed = [statistics.fmean(each) for each in zip(*settings, strict=True)]
    mean = statistics.fmean(of_setting)
    degrees = (len(settings) - 1) * (seeds - 1)
    rest = sum(
        (value - of_setting[place] - of_seed[seed] + mean) ** 2
        for place, each in enumerate(settings)
        for seed, value in enumerate(each)
    )
    error = math.sqrt(2 * rest / degrees / seeds)
    return [two_sided_p((one - other) / error, degrees) for one, other in itertools.combinations(of_setting, 2)]


TESTS: dict[str, Callable[[Outcomes], list[float | None]]] = {
    "paired": lambda settings: [paired(*pair) for pair in itertools.combinations(settings, 2)],
    "Welch": lambda settings: [welch(*pair) for pair in itertools.combinations(settings, 2)],
    "pooled": pooled,
    "permutation": lambda settings: [sign_flips(*pair) for pair in itertools.combinations(settings, 2)],
}


def told(each: Sequence[float | None]) -> bool:
    """Whether anything is beyond noise, after Holm's correction."""
    return any(p is not None and p < LEVEL for p in _corrected(each))


def false_alarms(sweeps: int) -> None:
    """Of sweeps whose settings do not differ, those in which a difference is called told."""
    print(f"| settings | seeds | noise | {' | '.join(TESTS)} |\n|---|---|---|{'---|' * len(TESTS)}")
    for settings, seeds, (name, noise) in itertools.product((2, 3, 6), (2, 3, 5), NOISES.items()):
        if settings == 2 and noise is unequal:
            continue
        numbers = random.Random(settings * 100 + seeds)
        made = [noise(numbers, settings, seeds) for _ in range(sweeps)]
        shares = [sum(told(test(one)) for one in made) / sweeps for test in TESTS.values()]
        print(f"| {settings} | {seeds} | {name} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


def power(sweeps: int) -> None:
    """Of sweeps with three settings, one of which is better, those that tell it from both others."""
    effects = (1, 2, 3, 5, 8, 12)
    print(f"\n| seeds | pairs | {' | '.join(map(str, effects))} |\n|---|---|{'---|' * len(effects)}")
    for seeds, settings in itertools.product((2, 3, 4, 5, 8, 10), (2, 3)):
        shares = []
        for effect in effects:
            numbers = random.Random(seeds)
            count = 0
            for _ in range(sweeps):
                made = shared(numbers, settings, seeds)
                # In standard deviations of the difference of two runs of one seed.
                made[-1] = [value + effect * math.sqrt(2) for value in made[-1]]
                p = _corrected(TESTS["paired"](made))
                pairs = list(itertools.combinations(range(settings), 2))
                count += all((one or 0) < LEVEL for one, pair in zip(p, pairs, strict=True) if settings - 1 in pair)
            shares.append(count / sweeps)
        shown = " | ".join(f"{share:.0%}" for share in shares)
        print(f"| {seeds} | {settings * (settings - 1) // 2} | {shown} |", flush=True)


def with_rows(sweeps: int) -> None:
    """False alarms where the noise is that of seeds and of rows, by the share of the rows."""
    print("\n| seeds | share of the rows | grpo-run | seeds alone | Satterthwaite alone |\n|---|---|---|---|---|")
    for seeds, share in itertools.product((2, 3, 5), (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)):
        numbers = random.Random(seeds)
        counts = [0, 0, 0]
        for _ in range(sweeps):
            by_row = [numbers.gauss(0, math.sqrt(share * ROWS)) for _ in range(ROWS)]
            by_seed = [numbers.gauss(0, math.sqrt((1 - share) * seeds)) for _ in range(seeds)]
            rows = [tuple(row + shift for row in by_row) for shift in by_seed]
            one = {seed: Sample(math.fsum(each) / ROWS, each) for seed, each in enumerate(rows)}
            other = {seed: Sample(0.0, (0.0,) * ROWS) for seed in range(seeds)}
            found = difference(one, other)
            bare = paired([sample.outcome for sample in one.values()], [0.0] * seeds)
            of_seeds, of_rows = found.seed_variance / seeds, found.row_variance
            parts = of_seeds**2 / (seeds - 1) + of_rows**2 / (ROWS - 1)
            degrees = max(1, min(1000, int((of_seeds + of_rows) ** 2 / parts)))
            both = two_sided_p(found.mean / math.sqrt(of_seeds + of_rows), degrees)
            for place, p in enumerate((found.p, 0.0 if bare is None else bare, both)):
                counts[place] += p is not None and p < LEVEL
        shown = " | ".join(f"{count / sweeps:.1%}" for count in counts)
        print(f"| {seeds} | {share:.0%} | {shown} |", flush=True)


def with_samples(sweeps: int) -> None:
    """False alarms where each of 30 held-out rows is answered several times, and settings are good at other rows."""
    print("\n| settings | seeds | completions of a row | grpo-run | each completion as a row |\n|---|---|---|---|---|")
    for settings, seeds, samples in itertools.product((2, 3, 4), (2, 3, 5), (1, 4, 16)):
        numbers = random.Random(settings * 1000 + seeds * 100 + samples)
        counts = [0, 0]
        for _ in range(sweeps):
            by_mean, by_completion = [], []
            for _ in range(settings):
                chances = [numbers.betavariate(0.5, 0.5) for _ in range(30)]
                drawn = [
                    [[float(numbers.random() < chance) for _ in range(samples)] for chance in chances]
                    for _ in range(seeds)
                ]
                means = [tuple(statistics.fmean(of_row) for of_row in rows) for rows in drawn]
                flat = [tuple(itertools.chain.from_iterable(rows)) for rows in drawn]
                by_mean.append({seed: Sample(statistics.fmean(rows), rows) for seed, rows in enumerate(means)})
                by_completion.append({seed: Sample(statistics.fmean(rows), rows) for seed, rows in enumerate(flat)})
            for place, made in enumerate((by_mean, by_completion)):
                each = verdicts([difference(*pair) for pair in itertools.combinations(made, 2)])
                counts[place] += any(verdict.is_told for verdict in each)
        shown = " | ".join(f"{count / sweeps:.1%}" for count in counts)
        print(f"| {settings} | {seeds} | {samples} | {shown} |", flush=True)


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description="how often a sweep tells a difference")
    parser.add_argument("--sweeps", type=int, default=4000, help="simulated for each line")
    sweeps = parser.parse_args().sweeps
    false_alarms(sweeps)
    with_rows(sweeps)
    with_samples(sweeps // 4)
    power(sweeps)


if __name__ == "__main__":
    main()
