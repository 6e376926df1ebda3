"""Standard streams that never fail: output that a closed, full or broken stream does not take is dropped.

A terminal, a pipe or `tee` may go away, a disk may be full, and an encoding may lack a character.
"""

import io
import os
import select
import sys
from typing import TextIO


class Steady(io.FileIO):
    """A raw stream over a descriptor, which stays open. Drops what cannot be written.

    patience_s: how long to wait for a reader that does not read; None for ever. problem: why output was dropped for the
    first time, None if none was.
    """

    def __init__(self, descriptor: int, patience_s: float | None = None) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.problem: OSError | None = None
        self._patience_s = patience_s
        self._is_stuck = False

    def write(self, content: object, /) -> int:
        """The number of bytes written or dropped: at most as many as a ready pipe takes at once."""
        part = memoryview(content)[: select.PIPE_BUF]  # type: ignore[arg-type]
        try:
            taken = None
            while taken is None:
                self._is_stuck = select.select([], [self], [], 0 if self._is_stuck else self._patience_s)[1] == []
                taken = len(part) if self._is_stuck else super().write(part)
        except OSError as problem:
            self.problem = self.problem or problem
            return len(part)
        return taken


def make_steady() -> None:
    """Makes the standard streams of this process steady; streams that were replaced are left as they are.

    A closed one becomes the null device; otherwise the next opened file would get its number and receive the output.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        raw = _raw(stream)
        if stream is None or (type(raw) is io.FileIO and not raw.closed and raw.fileno() == descriptor):
            setattr(sys, name, steady(descriptor, stream))


def steady(descriptor: int, before: TextIO | None, patience_s: float | None = None) -> TextIO:
    """A steady stream over a descriptor. before: the stream that it replaces.

    Characters that the encoding lacks, as in a name that is not UTF-8, are printed as backslash escapes.
    """
    raw = io.BufferedWriter(Steady(descriptor, patience_s))
    if before is not None:
        before.flush()
    encoding = getattr(before, "encoding", None) or "utf-8"
    is_by_line = not isinstance(before, io.TextIOWrapper) or before.line_buffering or before.write_through
    return io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=is_by_line)


def take_output_problem(stream: TextIO) -> OSError | None:
    """Why a stream has dropped output since the last call, else None."""
    raw = _raw(stream)
    if not isinstance(raw, Steady):
        return None
    stream.flush()
    problem, raw.problem = raw.problem, None
    return problem


def _raw(stream: TextIO | None) -> object:
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)  # python -u has no buffer around the raw stream
