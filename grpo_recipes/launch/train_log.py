"""train.log while it is written: everything that a run prints, without secrets."""

import contextlib
import os
import threading
from collections.abc import Iterator

from grpo_recipes.contract.secrets.redacted_file import RedactedFile

_COPY_S = 5.0


@contextlib.contextmanager
def open_redacted_log(path: str) -> Iterator[tuple[int, RedactedFile]]:
    """A log to which everything is appended without secrets; complete when the block ends.

    Yields the descriptor for a child's output, and the file, which knows what it had to drop. Output that a child
    writes after the block is lost. Raises OSError if the file cannot be opened.
    """
    file = RedactedFile(path)
    reading, writing = os.pipe()
    copying = threading.Thread(target=file.copy, args=(reading,), daemon=True)
    copying.start()
    try:
        yield writing, file
    finally:
        os.close(writing)
        copying.join(_COPY_S)
