"""How far the mean over held-out rows may be off: a bootstrap over the rows.

The rows are drawn, with all their completions, as often as there are rows and with replacement, thousands of times; the
interval is what the middle 95 % of the means of such draws span. It tells what other rows of the same kind would have
measured, and nothing of rows of another kind or of another training.
"""

from collections.abc import Mapping, Sequence

import numpy

LEVEL = 0.95
RESAMPLES = 2000
METHOD = "percentile bootstrap over rows"
_DRAWN_AT_ONCE = 1 << 20

Interval = tuple[float, float]


def intervals(
    columns: Mapping[str, Sequence[float | None]], seed: int, resamples: int = RESAMPLES
) -> dict[str, Interval | None]:
    """The interval of the mean of each column over its rows; None for one that no two rows have a value in.

    columns: by name, one value for each row, None where a row has none; all equally long. Each draw takes the same
    rows in all columns. seed: of the draws, which are the same in every release of numpy and touch no other generator.
    """
    table = numpy.array([[numpy.nan if value is None else value for value in column] for column in columns.values()])
    is_known = ~numpy.isnan(table)
    means = _resampled(numpy.where(is_known, table, 0.0), is_known.astype(float), seed, resamples)
    found: dict[str, Interval | None] = {}
    for name, known, drawn in zip(columns, is_known.sum(axis=1) if len(columns) else (), means, strict=True):
        there = drawn[~numpy.isnan(drawn)]
        ends = numpy.quantile(there, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if known > 1 else None
        found[name] = None if ends is None else (float(ends[0]), float(ends[1]))
    return found


def _resampled(values: "numpy.ndarray", known: "numpy.ndarray", seed: int, resamples: int) -> "numpy.ndarray":
    """Means of resampled rows, (figures, resamples); NaN where a draw has no known value.

    values, known: (figures, rows) float64, an unknown value is 0.0 and known by 0.0.
    """
    figures, rows = values.shape
    generator = numpy.random.RandomState(seed % (1 << 32))  # its draws are the same in all releases
    means = numpy.full((figures, resamples), numpy.nan)
    step = max(1, _DRAWN_AT_ONCE // max(1, rows))
    for start in range(0, resamples, step):
        drawn = generator.randint(0, rows, size=(min(step, resamples - start), rows))
        for figure in range(figures):
            counts = numpy.full(len(drawn), rows) if known[figure].all() else known[figure][drawn].sum(axis=1)
            sums = values[figure][drawn].sum(axis=1)
            here = numpy.divide(sums, counts, out=numpy.full(len(sums), numpy.nan), where=counts > 0)
            means[figure, start : start + len(sums)] = here
    return means
