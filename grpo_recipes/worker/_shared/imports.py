"""Makes importing the training stack faster, and hides notices meant for developers."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_imports() -> Iterator[None]:
    """Keeps Python's garbage collector from scanning imported objects, now and later.

    trl 1.16.0 with its libraries creates 850,000 objects. The collector took 1.0 s to scan them during the imports,
    scanned them again in every full collection of a training, and took 1.3 s at exit; benchmarks/fast_run.md has the
    time saved per run. A collector that was disabled stays disabled.
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
    """Hides progress bars and warnings that a recipe cannot fix, and keeps Pillow from starting a program.

    Call it before importing the training stack.
    """
    # transformers 5.23.0 deprecates names that trl 1.16.0 and its own Trainer still use.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers\.")
    # bitsandbytes 0.50.2 warns at its import that an optional CPU kernel is not installed.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

    import datasets
    import transformers

    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if datasets.config.PIL_AVAILABLE:
        # Pillow 13.0.0 runs `gs` from PATH for an EPS file, whatever its name. Rows may have columns of images that
        # `datasets` decodes and dataset.images does not name.
        from PIL import EpsImagePlugin

        EpsImagePlugin.gs_binary = False
