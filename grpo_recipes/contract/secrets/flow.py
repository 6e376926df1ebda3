"""How much a program may print into a log: a flood fills no disk, and the log has its beginning and its end."""

import time
from collections.abc import Callable

BURST_BYTES = 256 << 20
"""So much is taken at once; a run of a day that prints little never comes near it."""
BYTES_PER_SECOND = 64 << 10
"""So much is taken for ever: 5 GB in a day."""
LAST_BYTES = 1 << 16


class Flow:
    """Lets text through up to a burst and a rate. skipped: bytes that it left out since the last note.

    Whole lines are left out, since a secret that is cut in two would be seen.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, burst: int = BURST_BYTES) -> None:
        self.skipped = 0
        self._clock, self._burst = clock, burst
        self._room, self._last = float(burst), clock()
        self._end = b""

    def taken(self, content: bytes) -> bytes:
        """What of the content goes into the log: all of it, nothing, or where a flood ends what follows its line."""
        now = self._clock()
        self._room = min(self._burst, self._room + (now - self._last) * BYTES_PER_SECOND)
        self._last = now
        # Once it is full, it waits for some room: one note for each line would be a flood, too.
        if len(content) > self._room or (self.skipped and self._room < self._burst / 16):
            self._skip(content)
            return b""
        if self.skipped:
            line = content.find(b"\n") + 1 or len(content)
            self._skip(content[:line])
            content = content[line:]
        self._room -= len(content)
        return content

    def note(self) -> bytes:
        """What stands in the log for what was left out."""
        count, self.skipped, self._end = self.skipped, 0, b""
        return f"\n[{count} bytes of output were left out here: too much was printed]\n".encode() if count else b""

    def last_lines(self) -> bytes:
        """The end of what was left out since the last note."""
        return self._end[self._end.find(b"\n") + 1 :]

    def _skip(self, content: bytes) -> None:
        self.skipped += len(content)
        self._end = (self._end + content)[-LAST_BYTES:]
