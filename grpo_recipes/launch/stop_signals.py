"""Records signals that ask a run to stop, while it trains."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from grpo_recipes.contract.host.processes import ASKING

_APART_S = 0.2
"""The kernel merges equal signals that are pending together; the receiver has to see both."""


class StopSignals:
    """Collects the received signals, by name and in order. A SIGHUP only means that the terminal is gone."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.terminal_is_gone = False
        self._passed_on = 0

    def note(self, which: int, _: object) -> None:
        """Handles a signal."""
        if which == signal.SIGHUP:
            self.terminal_is_gone = True
        else:
            self.names.append(signal.Signals(which).name)

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
def install_handler(
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
    with install_handler(ASKING, asked.note):
        yield asked


def never_stopped_by_output() -> None:
    """Keeps the terminal from stopping this process for writing in the background: see `stty tostop`.

    The process copies the run's output; if it is stopped, the run blocks.
    """
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
