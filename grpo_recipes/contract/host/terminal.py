"""The terminal that a process is controlled from, and the SIGHUP that comes when it goes away."""

import os
import time

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
