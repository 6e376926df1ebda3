"""train.log as it is written: everything that a run prints, without secrets."""

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from grpo_recipes.contract.secrets.redacted_file import RedactedFile

_LAST_WORDS_S = 5.0


@dataclass(frozen=True, slots=True)
class RedactedLog:
    """Where a child writes: the descriptor `writing`. file: the log that it comes to, with what it had to leave out."""

    writing: int
    file: RedactedFile


@contextlib.contextmanager
def redacted_log(path: str) -> Iterator[RedactedLog]:
    """A log to whose end everything is copied without secrets; all is there when the block is left.

    Whatever a child still holds of it afterwards goes nowhere. Raises OSError where the file cannot be opened.
    """
    file = RedactedFile(path)
    reading, writing = os.pipe()
    copying = threading.Thread(target=file.copy, args=(reading,), daemon=True)
    copying.start()
    try:
        yield RedactedLog(writing, file)
    finally:
        os.close(writing)
        copying.join(_LAST_WORDS_S)
