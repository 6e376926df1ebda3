"""What an export is busy with, a line for each stage, and how far the proof is."""

import time
from collections.abc import Callable

_SHARES = (25, 50, 75)
_SOONEST_S = 5.0


class Stages:
    """Says each stage as it begins, and the quarters of a long one. say: takes a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._words, self._parts, self._done, self._said_at = "", 0, 0, 0.0

    def stage(self, words: str, parts: int = 0) -> None:
        """Begins a stage. parts: how often count() is called in it."""
        self._words, self._parts, self._done, self._said_at = words, parts, 0, time.monotonic()
        self._say(words)

    def count(self) -> None:
        """A part of the stage is over."""
        self._done += 1
        before, now = (100 * done // max(1, self._parts) for done in (self._done - 1, self._done))
        is_due = any(before < share <= now for share in _SHARES)
        if is_due and time.monotonic() - self._said_at > _SOONEST_S:
            self._said_at = time.monotonic()
            self._say(f"{self._words}: {now} %")
