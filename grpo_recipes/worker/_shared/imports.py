"""Imports of the training stack, which last for seconds, without Python's collector of unused objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_imports() -> Iterator[None]:
    """Lets the collector neither look through objects while they are imported, nor ever again through those that stay.

    TRL with its libraries makes a million of them. The collector looked through them dozens of times while they came,
    at each full round in a training, and once more when the process ended: 1.3 of 7.5 seconds until the first step and
    1.3 at the end, see benchmarks/fast_run.md. Where it was off it stays off.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collected:
            gc.enable()
