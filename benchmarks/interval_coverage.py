"""How often the interval of an evaluation has the true mean in it: `python benchmarks/interval_coverage.py`.

Prints a table of benchmarks/intervals.md: kinds of rows, and how many rows are held out. Nominal is 95 %; a share of
2000 trials is known to within one point.
"""

import sys
from collections.abc import Callable

import numpy

from grpo_recipes.worker.completions.intervals import intervals, pass_at

ROWS = (10, 20, 50, 100, 200, 500)
TRIALS, DRAWS = 2000, 1000
Draw = Callable[["numpy.random.RandomState", int], "numpy.ndarray"]


def right(share: float) -> Draw:
    return lambda random, rows: (random.rand(rows) < share).astype(float)


def best_of_eight(random: "numpy.random.RandomState", rows: int) -> "numpy.ndarray":
    """pass@4 of rows from 8 completions; how often a row's completions pass is Beta(0.3, 1)."""
    passed = random.binomial(8, random.beta(0.3, 1.0, rows))
    return numpy.array([pass_at(8, int(count), 4) for count in passed])


def changed(random: "numpy.random.RandomState", rows: int) -> "numpy.ndarray":
    """The change of rows of which one in five becomes right and one in twenty wrong."""
    return random.choice([1.0, -1.0, 0.0], size=rows, p=[0.2, 0.05, 0.75])


KINDS: dict[str, tuple[Draw, float]] = {
    "half of the rows right": (right(0.5), 0.5),
    "1 row in 10 right": (right(0.1), 0.1),
    "1 row in 50 right": (right(0.02), 0.02),
    "graded, 0 to 1 evenly": (lambda random, rows: random.rand(rows), 0.5),
    "graded, a long tail": (lambda random, rows: random.exponential(size=rows), 1.0),
    "pass@4 of 8 completions": (best_of_eight, float(best_of_eight(numpy.random.RandomState(9), 2_000_000).mean())),
    "change: 1 in 5 right, 1 in 20 wrong": (changed, 0.15),
}


def main() -> None:
    print("| rows | " + " | ".join(map(str, ROWS)) + " |")
    print("|---" * (len(ROWS) + 1) + "|")
    for name, (draw, mean) in KINDS.items():
        random = numpy.random.RandomState(1)
        shares = []
        for rows in ROWS:
            found = [intervals({"": draw(random, rows).tolist()}, trial, DRAWS)[""] for trial in range(TRIALS)]
            shares.append(sum(ends is not None and ends[0] <= mean <= ends[1] for ends in found) / TRIALS)
        print(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
