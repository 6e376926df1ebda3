"""Writes a run's progress from a separate thread, so that a blocked reader never blocks the run."""

import contextlib
import io
import os
import queue
import threading
from collections.abc import Iterator
from typing import TextIO

from grpo_recipes.contract.secrets.redacted_file import RedactedFile

_WAITING = 1 << 10  # lines, or redraws of a progress bar
_FLUSH_S = 2.0


class Echo(io.TextIOBase):
    """Writes text to a stream that may be stopped, full or closed. Drops text that the stream does not accept in time.

    problem: why writing has failed permanently, None while it works. Writes directly to a stream without a descriptor.
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
        """The encoding of the underlying stream."""
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        """Whether the underlying stream was a terminal at the start."""
        return self._is_terminal

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        """Queues the text; never raises, never blocks."""
        if self._descriptor is None:
            return self._stream.write(text)
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(text)
        return len(text)

    def flush(self) -> None:
        """Does nothing: callers never wait for the stream."""

    def end(self) -> None:
        """Waits a moment for queued text to be written."""
        if self._descriptor is not None:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(_FLUSH_S)

    def _write_all(self, descriptor: int) -> None:
        while (text := self._waiting.get()) is not None:
            content = text.encode(self.encoding, "backslashreplace")
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
            except BlockingIOError:
                pass  # another process made it non-blocking; a line is lost
            except OSError as problem:
                self.problem = self.problem or problem


# train.log while it is written: everything that a run prints, without secrets.


_COPY_S = 5.0


@contextlib.contextmanager
def redacted_log(path: str) -> Iterator[tuple[int, RedactedFile]]:
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
