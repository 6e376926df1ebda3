"""Some of many rows, the same ones each time."""

import random
from itertools import pairwise


def spread(count: int, wanted: int, seed: int) -> list[int]:
    """At most so many places below count, in order: one drawn from each of equal parts."""
    drawn = random.Random(seed)
    parts = min(count, wanted)
    edges = [part * count // parts for part in range(parts)] + [count] if parts else []
    return [drawn.randrange(low, high) for low, high in pairwise(edges)]
