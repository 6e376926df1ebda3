"""Student's t distribution with a whole number of degrees of freedom, where its probability is a finite sum."""

import math

_HALVINGS = 60


def two_sided_p(t: float, degrees: int) -> float:
    """The probability of a value as far from 0 as t, on either side.

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


def upper_quantile(p: float, degrees: int) -> float:
    """The value that is exceeded with the probability p, 0 < p <= 0.5."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > 2 * p:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > 2 * p else (low, middle)
    return high
