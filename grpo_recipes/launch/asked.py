"""The signals that ask a run to stop, noted while it trains."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.host.standard_streams import Hangups

_APART_S = 0.2
"""Two equal signals that wait together are one to the kernel; who gets them has to see both."""


class AskedSignals:
    """The signals that came, by name and in their order. The SIGHUP of a terminal that went away is none of them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._passed_on = 0
        self._hangups = Hangups()

    @property
    def terminal_is_gone(self) -> bool:
        """Whether the terminal went away, by a SIGHUP."""
        return self._hangups.gone_at is not None

    def note(self, which: int, _: object) -> None:
        """Handles a signal."""
        if which == signal.SIGHUP:
            self._hangups.came()
        else:
            self.names.append(signal.Signals(which).name)

    def settle(self) -> None:
        """Decides what a SIGHUP meant, as soon as that can be known."""
        if self._hangups.is_wish():
            self.names.append(signal.SIGHUP.name)

    def pass_on(self, children: "Iterable[subprocess.Popen[bytes]]", say: Callable[[str], None], means: str) -> None:
        """Sends the children SIGTERM for each signal since the last call. means: what the first one does, in words."""
        for name in self.names[self._passed_on :]:
            if self._passed_on == 0:
                say(f"{name}: {means}")
            self._passed_on += 1
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(signal.SIGTERM)
            time.sleep(_APART_S)


@contextlib.contextmanager
def handled(
    signals: Iterable[signal.Signals], handler: Callable[[int, Any], object] | signal.Handlers
) -> Iterator[None]:
    """Handles signals in another way for a while; ignored ones stay ignored."""
    before = {each: old for each in signals if (old := signal.getsignal(each)) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


@contextlib.contextmanager
def signals_noted() -> Iterator[AskedSignals]:
    """Notes signals instead of dying of them."""
    asked = AskedSignals()
    with handled(ASKING, asked.note):
        yield asked


def never_stopped_by_talk() -> None:
    """Keeps a terminal from stopping this process because it writes to it from the background: see `stty tostop`.

    The process copies what the run prints; one that is stopped stops the run.
    """
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
