"""Calls in the training's own process that end after some seconds, wherever Python is by then."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from grpo_recipes.worker.tools.tool_process import ToolFailed

_AGAIN_AFTER_S = 1.0


class _TookTooLong(BaseException):
    """Passes whatever user code does about exceptions."""


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Around one call. Raises ToolFailed when it takes longer; library code that never returns is not ended.

    Only the main thread is interrupted; a call in another one has no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    give_up = time.monotonic() + seconds

    def late(_: int, __: FrameType | None) -> None:
        if time.monotonic() >= give_up:
            raise _TookTooLong

    before = signal.signal(signal.SIGALRM, late)
    # Again and again, for code that catches everything.
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_AFTER_S)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TookTooLong as ended:
        failed = ToolFailed(f"{what} took longer than {seconds:g} seconds and was ended", by="time")
        raise failed.with_traceback(ended.__traceback__) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
