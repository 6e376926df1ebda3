"""Figures that are known by their ends alone."""

import math
from typing import NamedTuple


class Between(NamedTuple):
    """A figure that lies between two ends, both included."""

    least: float
    most: float

    def plus(self, other: "Between") -> "Between":
        """The sum of two figures that know nothing of each other."""
        return Between(self.least + other.least, self.most + other.most)

    def times(self, factor: float) -> "Between":
        """The figure, so many times. factor: not negative."""
        return Between(self.least * factor, self.most * factor)

    def middle(self) -> float:
        """The figure that is as many times above the one end as below the other, 0 where the lower end is 0."""
        return math.sqrt(self.least * self.most)

    def share_of(self, rest: "Between") -> "Between":
        """The share of this figure in the sum of it and the rest; 0 of nothing."""
        return Between(_share(self.least, rest.most), _share(self.most, rest.least))


def _share(part: float, rest: float) -> float:
    return part / (part + rest) if part else 0.0
