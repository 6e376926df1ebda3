"""Standard streams that never fail: output that a closed, full or broken stream does not take is dropped.

A terminal, a pipe or `tee` may go away, a disk may be full, and an encoding may lack a character.
"""

import io
import os
import select
import sys
import time

STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}


class Steady(io.FileIO):
    """A raw stream over a descriptor, which stays open. Drops what cannot be written.

    problem: why output was dropped for the first time, None if none was.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.problem: OSError | None = None

    def write(self, content: object, /) -> int:
        """The number of bytes given, written or dropped. Waits if the descriptor was made non-blocking."""
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        try:
            while (taken := super().write(content)) is None:  # type: ignore[arg-type]
                select.select([], [self.fileno()], [])
        except OSError as problem:
            self.problem = self.problem or problem
            return size
        return taken


def make_steady() -> None:
    """Makes the standard streams of this process steady; streams that were replaced are left as they are.

    A closed one becomes the null device; otherwise the next opened file would get its number and receive the output.
    """
    for descriptor in STREAMS.values():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or (_descriptor(stream) == STREAMS[name] and _raw(stream) is None):
            setattr(sys, name, _steady(STREAMS[name], stream))


def left_out(name: str) -> OSError | None:
    """Why a stream, "stdout" or "stderr", has dropped output since the last call, else None."""
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
    # Characters that the encoding lacks, as in a name that is not UTF-8, are printed as backslash escapes.
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


# The controlling terminal of a process, and the SIGHUP that arrives when it closes.


_HANGUP_S = 2.0
_SAME_S = 5.0


def has_terminal() -> bool:
    """Whether this process has a controlling terminal: not under cron or a service, nor after its window closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


class Hangups:
    """Distinguishes a SIGHUP that somebody sent from that of a closing terminal.

    A shell, and some terminals, send the signal before the terminal is gone, so the decision waits a moment.
    """

    def __init__(self) -> None:
        self._had_terminal = has_terminal()
        self._came: float | None = None
        self.gone_at: float | None = None

    def came(self) -> None:
        """Records a SIGHUP. Safe to call in a signal handler."""
        self._came = self._came or time.monotonic()

    def is_wish(self) -> bool | None:
        """Whether the received SIGHUP asks the run to stop; None if there was none or it cannot be told yet."""
        came, now = self._came, time.monotonic()
        if came is None:
            return None
        if self.gone_at is not None and came - self.gone_at < _SAME_S:
            self._came = None  # the shell and the kernel both send one
            return False
        if self._had_terminal and not has_terminal():
            self._had_terminal, self._came, self.gone_at = False, None, now
            return False
        if self._had_terminal and now - came < _HANGUP_S:
            return None
        self._came = None
        return True
