"""What is said of a run while it trains, written by a thread of its own: nobody who does not read holds the run up."""

import contextlib
import io
import os
import queue
import threading
from collections.abc import Iterator
from typing import TextIO

from grpo_recipes.contract.secrets.redacted_file import RedactedFile

_WAITING = 1 << 10  # lines, or frames of a bar
_LAST_WORDS_S = 2.0


class Echo(io.TextIOBase):
    """A text stream before another one, which may be stopped, full or gone. What it does not take in time is left out.

    problem: why nothing more can be written, None while it can. A stream without a descriptor is written to at once.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.problem: OSError | None = None
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._waiting: queue.Queue[str | None] = queue.Queue(_WAITING)
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError):
            self._descriptor = None
            return
        stream.flush()
        self._thread = threading.Thread(target=self._write_all, args=(self._descriptor,), daemon=True, name="echo")
        self._thread.start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream behind."""
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        """Whether the stream behind was a terminal at the beginning."""
        return self._is_terminal

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        """Takes the text; never raises, never waits."""
        if self._descriptor is None:
            return self._stream.write(text)
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits for the stream."""

    def end(self) -> None:
        """Gives what is still to be written a moment."""
        if self._descriptor is not None:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(_LAST_WORDS_S)

    def _write_all(self, descriptor: int) -> None:
        while (text := self._waiting.get()) is not None:
            content = text.encode(self.encoding, "backslashreplace")
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
            except BlockingIOError:
                pass  # others made it so; a line is lost
            except OSError as problem:
                self.problem = self.problem or problem


# train.log as it is written: everything that a run prints, without secrets.


_COPYING_S = 5.0


@contextlib.contextmanager
def redacted_log(path: str) -> Iterator[tuple[int, RedactedFile]]:
    """A log to whose end everything is copied without secrets; all is there when the block is left.

    The descriptor is what a child writes to; the file knows what it had to leave out.

    Whatever a child still holds of it afterwards goes nowhere. Raises OSError where the file cannot be opened.
    """
    file = RedactedFile(path)
    reading, writing = os.pipe()
    copying = threading.Thread(target=file.copy, args=(reading,), daemon=True)
    copying.start()
    try:
        yield writing, file
    finally:
        os.close(writing)
        copying.join(_COPYING_S)
