"""Standard streams that never end their process: one that is closed, full or gone takes nothing any more, that is all.

A terminal, a pipe or `tee` may go away, a disk may be full, and a locale may have no word for a letter.
"""

import io
import os
import select
import sys

STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}


class Steady(io.FileIO):
    """Writes to a descriptor, which stays open; what it does not take is left out.

    problem: why something was left out for the first time, None while nothing was.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.problem: OSError | None = None

    def write(self, content: object, /) -> int:
        """The number of bytes, whether they were taken or not. Waits where others made the descriptor non-blocking."""
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        try:
            while (taken := super().write(content)) is None:  # type: ignore[arg-type]
                select.select([], [self.fileno()], [])
        except OSError as problem:
            self.problem = self.problem or problem
            return size
        return taken


def make_steady() -> None:
    """Makes the standard streams of this process steady; those that somebody replaced stay as they are.

    A closed one becomes the null device: the next file that is opened would get its number, and what a program prints
    would be written into it.
    """
    for descriptor in STREAMS.values():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or (_descriptor(stream) == STREAMS[name] and _raw(stream) is None):
            setattr(sys, name, _steady(STREAMS[name], stream))


def left_out(name: str) -> OSError | None:
    """Why a stream, "stdout" or "stderr", did not take all that was written since the last time, else None."""
    raw = _raw(getattr(sys, name))
    if raw is None:
        return None
    getattr(sys, name).flush()
    problem, raw.problem = raw.problem, None
    return problem


def _steady(descriptor: int, before: io.TextIOWrapper | None) -> io.TextIOWrapper:
    raw = Steady(descriptor)
    if before is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
    before.flush()
    # A name that is not UTF-8, or a letter that an encoding lacks, is printed with a backslash.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), before.encoding, "backslashreplace", line_buffering=before.line_buffering
    )


def _descriptor(stream: object) -> int | None:
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return None


def _raw(stream: object) -> Steady | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, Steady) else None
