"""Measures work in a way that a busy machine does not change."""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def calls(action: Callable[[], object]) -> int:
    """Counts Python and C calls that `action` makes: the same number each time, however busy the machine is."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # it would call finalizers of earlier tests' objects
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def growth(action: Callable[[int], object], size: int, times: int, rounds: int = 5) -> float:
    """Returns how many times longer `action(times * size)` takes than `action(size)`, in CPU seconds.

    Each time is the minimum of `rounds`, and the rounds alternate, so a burst of load changes neither.
    """
    short, long = [], []
    for _ in range(rounds):
        for spent, length in ((short, size), (long, times * size)):
            start = time.process_time()
            action(length)
            spent.append(time.process_time() - start)
    return min(long) / max(min(short), 1e-6)


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    """Fails if a block takes more CPU seconds. Nothing is collected in it: what earlier tests had left took 2.4 s."""
    gc.disable()
    try:
        start = time.process_time()
        yield
        took_s = time.process_time() - start
    finally:
        gc.enable()
    assert took_s < seconds
