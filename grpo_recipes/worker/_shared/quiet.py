"""Keeps what the libraries say to developers out of the output, so that what is said to the user is seen."""

import logging
import warnings


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
