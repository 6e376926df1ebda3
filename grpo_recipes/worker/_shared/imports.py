"""Imports of the training stack: without Python's collector of unused objects, and without words for developers."""

import gc
import logging
import warnings
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


def quiet_libraries() -> None:
    """Hides progress bars, and notices that a recipe cannot answer. Before the training stack is imported."""
    # transformers 5.23.0 deprecates names that trl 1.16.0 and its own Trainer still use.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers\.")
    # bitsandbytes 0.50.2 warns at its import that an optional CPU kernel is not installed.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

    import datasets
    import transformers

    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
