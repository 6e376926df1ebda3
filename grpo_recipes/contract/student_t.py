"""Student's t distribution for whole degrees of freedom, where its probability is a finite sum."""

import math


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
    for power in range(1 if is_odd else 0, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    inside = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return min(1.0, max(0.0, 1.0 - inside))


def critical_t(level: float, degrees: int) -> float:
    """The t that is exceeded, on either side, with probability level: 12.7 for 0.05 and one degree of freedom."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > level:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > level else (low, middle)
    return high
