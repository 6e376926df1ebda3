"""What a process of the run prints, read where it comes to: a file of its own, or the log of the run folder."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from grpo_recipes.contract.files.folder_files import open_to_read

LOG_FILE = "train.log"
_STDERR = 2
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LastWords:
    """What comes to both after this moment. log, own: bytes that were there; own: None where stderr is no file.

    A process whose errors go to a terminal, or to a pipe that nobody writes to the run folder, leaves nothing.
    """

    log: int
    own: int | None

    @classmethod
    def now(cls, folder: Path) -> "LastWords":
        """What comes to both from this moment on."""
        own = os.fstat(_STDERR)
        try:
            with open_to_read(folder, LOG_FILE) as file:
                log = os.fstat(file.fileno()).st_size
        except OSError:
            log = 0
        return cls(log, own.st_size if stat.S_ISREG(own.st_mode) else None)

    def text(self, folder: Path) -> str:
        """The last megabyte of each. To be asked in a process that has the same stderr."""
        found = b""
        with suppress(OSError), open_to_read(folder, LOG_FILE) as file:
            found += _tail(file, self.log)
        if self.own is not None:
            with suppress(OSError), open(f"/proc/self/fd/{_STDERR}", "rb") as file:  # it may be open to write alone
                found += _tail(file, self.own)
        return found.decode(errors="replace")


def _tail(file: BinaryIO, begins_at: int) -> bytes:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), _MOST_BYTES, max(begins_at, size - _MOST_BYTES))
