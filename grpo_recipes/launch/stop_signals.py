"""Records signals that ask a run to stop, while it trains."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.host.standard_streams import Hangups

_APART_S = 0.2
"""The kernel merges equal signals that are pending together; the receiver has to see both."""


class StopSignals:
    """Collects the received signals, by name and in order. Excludes the SIGHUP of a closing terminal."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._passed_on = 0
        self._hangups = Hangups()

    @property
    def terminal_is_gone(self) -> bool:
        """Whether a SIGHUP showed that the terminal is gone."""
        return self._hangups.gone_at is not None

    def note(self, which: int, _: object) -> None:
        """Handles a signal."""
        if which == signal.SIGHUP:
            self._hangups.came()
        else:
            self.names.append(signal.Signals(which).name)

    def settle(self) -> None:
        """Decides whether a SIGHUP asked the run to stop, as soon as that is known."""
        if self._hangups.is_wish():
            self.names.append(signal.SIGHUP.name)

    def pass_on(self, children: "Iterable[subprocess.Popen[bytes]]", say: Callable[[str], None], means: str) -> None:
        """Sends the children a SIGTERM for each signal since the last call. means: what the first one does, for the
        message.
        """
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
    """Installs a signal handler while the block runs; ignored signals stay ignored."""
    before = {each: old for each in signals if (old := signal.getsignal(each)) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


@contextlib.contextmanager
def signals_noted() -> Iterator[StopSignals]:
    """Records signals while the block runs, instead of being killed by them."""
    asked = StopSignals()
    with handled(ASKING, asked.note):
        yield asked


def never_stopped_by_output() -> None:
    """Keeps the terminal from stopping this process for writing in the background: see `stty tostop`.

    The process copies the run's output; if it is stopped, the run blocks.
    """
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
