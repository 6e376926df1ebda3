"""Signals that ask this process to stop, noticed while it waits."""

import contextlib
import os
import select
import signal

from grpo_recipes.contract.host.processes import ASKING


class Wishes:
    """How often it was asked to stop.

    parent: the process whose death asks as well, None where it may end before. An ignored signal stays ignored, as
    nohup wants it; SIGUSR1 does not, which launch.sh ignores for the programs that would die of it.
    """

    def __init__(self, parent: int | None) -> None:
        self._parent = parent
        self._reading, writing = os.pipe()
        for end in (self._reading, writing):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in ASKING:
            if number == signal.SIGUSR1 or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # ends a wait early
        self.count = 0

    def wait(self, seconds: float) -> int:
        """Waits, less long when a signal comes or a child ends, and returns the wishes that came meanwhile."""
        select.select([self._reading], [], [], seconds)
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._reading, 64)
        new = sum(number in ASKING for number in numbers)
        self.count += new
        return new

    @property
    def orphaned(self) -> bool:
        """Whether the parent that watched is gone."""
        return self._parent is not None and os.getppid() != self._parent
