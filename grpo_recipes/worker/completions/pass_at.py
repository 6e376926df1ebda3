"""pass@k: how likely at least one of k completions of a row passes."""

import math


def pass_at(samples: int, passed: int, k: int) -> float:
    """The unbiased estimate from so many completions of a row, of which so many passed: 1 - C(n-c, k) / C(n, k).

    Counted in whole numbers and divided once, so it is the nearest float of any numbers. Raises ValueError unless
    0 <= passed <= samples and 1 <= k <= samples. Source: Chen et al. 2021, arXiv 2107.03374, equation 1.
    """
    if not (0 <= passed <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} of {passed} passed among {samples}")
    sets = math.comb(samples, k)
    return (sets - math.comb(samples - passed, k)) / sets
