"""Imports of the training stack, which last for seconds, without Python's collector of unused objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_imports() -> Iterator[None]:
    """Lets the collector neither look through objects while they are imported, nor later through those that stay.

    trl 1.16.0 with its libraries makes 850,000 of them. The collector took 1.0 s to look through them while they came,
    looked again in each full round of a training, and took 1.3 s when the process ended; benchmarks/fast_run.md has
    what a run gains. Where it was off it stays off.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collected:
            gc.enable()
