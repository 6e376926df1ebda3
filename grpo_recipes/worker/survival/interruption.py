"""A first signal asks the run to stop after the current step; a second one ends it at once."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from grpo_recipes.contract.exits import EXIT_INTERRUPTED
from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.host.standard_streams import Hangups

_POLL_S = 0.05


class Interruption:
    """Whether a signal has come that asks to stop.

    on_first: called when it has; on_end: before the process ends at once. grace_s: a launcher and a terminal may both
    pass the same wish on, so signals within this time after the first are the same signal.
    """

    def __init__(self, on_end: Callable[[], object] = lambda: None, grace_s: float = 3.0) -> None:
        self.requested = False
        self.can_wait = False
        self.on_first: Callable[[], object] = lambda: None
        self.on_end = on_end
        self._grace_s = grace_s
        self._first: float | None = None
        self._hangups = Hangups()

    def listen(self) -> None:
        """Takes the signals over. A thread sees them even while the main thread waits inside a collective.

        An ignored hangup stays ignored, as nohup wants it.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        for number in ASKING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader, writer), name="signals", daemon=True).start()

    def _watch(self, reader: socket.socket, writer: socket.socket) -> None:
        # `writer` is only held, so that it is not closed: signals are written to its number.
        while numbers := reader.recv(64):
            for number in numbers:
                if number == signal.SIGHUP and not self._is_wish():
                    print("the terminal is gone; the run goes on, and SIGINT or SIGTERM still saves and stops it")
                elif number in ASKING:
                    self._receive()

    def _is_wish(self) -> bool:
        """Whether somebody sent the SIGHUP, which takes a moment to know where a terminal may have gone away."""
        self._hangups.came()
        while (found := self._hangups.is_wish()) is None:
            time.sleep(_POLL_S)
        return found

    def _receive(self) -> None:
        now = time.monotonic()
        if self.can_wait and self._first is None:
            self._first, self.requested = now, True
            self.on_first()
        elif self._first is None or now - self._first > self._grace_s:
            self.on_end()
            sys.stdout.flush()
            os._exit(EXIT_INTERRUPTED)
