"""Numbers among the options of shipped rewards."""

import math


def check_whole_number(value: object, what: str, least: int) -> None:
    """Raises ValueError for a value that is not a whole number of at least `least`. what: reward and option."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, not {value!r}")


def check_number(value: object, what: str) -> None:
    """Raises ValueError for a value that is not a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, not {value!r}")
