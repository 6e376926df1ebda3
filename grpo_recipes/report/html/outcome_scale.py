"""Where the means, intervals and outcomes of a sweep's settings are in pictures that share one scale."""

from collections.abc import Sequence
from typing import NamedTuple


class Outcomes(NamedTuple):
    """The outcomes of a setting's runs. mean, interval: None if unknown. names: of all its runs, also without one."""

    mean: float | None
    interval: tuple[float, float] | None
    runs: tuple[float, ...]
    names: tuple[str, ...]


class Scale(NamedTuple):
    """A scale from the lowest to the highest value of all settings."""

    low: float
    high: float

    def x(self, value: float) -> str:
        """The distance of a value from the left, as a percentage of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.4g}%" if self.high > self.low else "50%"


def scale_of(settings: Sequence[Outcomes]) -> Scale | None:
    """The scale for these settings, None without a value."""
    values = [value for each in settings for value in (*each.runs, *(each.interval or ()))]
    return Scale(min(values), max(values)) if values else None
