"""Numbers among the options of shipped rewards."""

import math


def check_whole_number(value: object, what: str, least: int) -> None:
    """Raises ValueError for what is no whole number, or less. what: the reward and its option."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what} {value!r} is no whole number from {least} on")


def check_number(value: object, what: str) -> None:
    """Raises ValueError for what is no finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{what} {value!r} is no number")
