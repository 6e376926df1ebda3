"""Standard streams that never end their process: one that is closed, full or gone takes nothing any more, that is all.

A terminal, a pipe or `tee` may go away, a disk may be full, and a locale may have no word for a letter.
"""

import io
import os
import select
import sys
import time

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


# The terminal that a process is controlled from, and the SIGHUP that comes when it goes away.


_HANGUP_S = 2.0
_SAME_S = 5.0


def has_terminal() -> bool:
    """Whether a terminal controls this process: none does under cron or a service, nor when its window was closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


class Hangups:
    """Tells a SIGHUP that somebody sent from that of a terminal which went away, before it or a moment after it.

    A shell sends the signal on before its terminal is gone, and so do some windows: it is waited for.
    """

    def __init__(self) -> None:
        self._had_terminal = has_terminal()
        self._came: float | None = None
        self.gone_at: float | None = None

    def came(self) -> None:
        """A SIGHUP came. A handler may call it."""
        self._came = self._came or time.monotonic()

    def is_wish(self) -> bool | None:
        """Whether the SIGHUP that came asks the run to stop; None where none came, or it is not known yet."""
        came, now = self._came, time.monotonic()
        if came is None:
            return None
        if self.gone_at is not None and came - self.gone_at < _SAME_S:
            self._came = None  # the shell and the kernel both say it
            return False
        if self._had_terminal and not has_terminal():
            self._had_terminal, self._came, self.gone_at = False, None, now
            return False
        if self._had_terminal and now - came < _HANGUP_S:
            return None
        self._came = None
        return True
