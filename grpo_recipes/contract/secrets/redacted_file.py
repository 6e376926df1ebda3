"""What a program prints, copied to a file without secrets. Whoever prints is never kept waiting by a full disk."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_append
from grpo_recipes.contract.secrets.redact import Span, cut_out, secret_spans

_LONGEST_LINE = 1 << 20
_KEPT_OF_A_LINE = 1 << 17
_WORDS_BEFORE = 128
"""Bytes before a secret that say that it is one."""
_REMEMBERED_BYTES = 1 << 16
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
        """Returns the line that the log has in place of what was left out."""
        count, self.skipped, self._end = self.skipped, 0, b""
        return f"\n[{count} bytes of output were left out here: too much was printed]\n".encode() if count else b""

    def last_lines(self) -> bytes:
        """The end of what was left out since the last note."""
        return self._end[self._end.find(b"\n") + 1 :]

    def _skip(self, content: bytes) -> None:
        self.skipped += len(content)
        self._end = (self._end + content)[-LAST_BYTES:]


class RedactedFile:
    """Appends to a file, whole lines at a time. Raises OSError where it cannot be opened.

    What cannot be written is left out, and tried again with the next lines. lost: bytes that are missing; problem: why,
    of the last time, None while nothing is missing; last_lost: the end of what is missing.
    """

    def __init__(self, path: str) -> None:
        self.lost = 0
        self.problem: OSError | None = None
        self.last_lost = b""
        self._file = open_to_append(Path(path).parent, Path(path).name)
        self._rest = b""
        self._gap = 0
        self._flow = Flow()

    def copy(self, source: int) -> None:
        """Copies all that a descriptor gives until its end, and closes both."""
        try:
            while content := os.read(source, 1 << 16):
                self._take(content)
            last = self._flow.last_lines()
            self._append(self._rest + self._flow.note() + last)
        finally:
            os.close(source)
            os.close(self._file)

    def _take(self, content: bytes) -> None:
        """Adds what is not too much. A line that was begun when a flood began is left out with it."""
        before = self._flow.skipped
        taken = self._flow.taken(content)
        if self._flow.skipped and not before:
            self._rest = b""
        if taken:
            self._add(self._flow.note() + taken)

    def _add(self, content: bytes) -> None:
        self._rest += content
        # A bar that moves ends its lines with \r. A secret that is cut in two would be seen.
        whole = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1
        if whole == 0 and len(self._rest) > _LONGEST_LINE:
            self._cut_long_line()
        elif whole:
            self._append(self._rest[:whole])
            self._rest = self._rest[whole:]

    def _cut_long_line(self) -> None:
        """Appends most of a line that does not end. What is kept of it is longer than a secret, and none is cut."""
        spans = secret_spans(self._rest)
        cut = _cut_beside(spans, len(self._rest) - _KEPT_OF_A_LINE)
        self._append_hidden(cut_out(self._rest[:cut], [(start, min(end, cut)) for start, end in spans if start < cut]))
        self._rest = self._rest[cut:]

    def _append(self, content: bytes) -> None:
        self._append_hidden(cut_out(content, secret_spans(content)))

    def _append_hidden(self, text: bytes) -> None:
        if text and self._gap:
            why = "" if self.problem is None else f": {self.problem.strerror}"
            note = f"\n[{self._gap} bytes of output are missing here{why}]\n".encode()
            if self._written(note) < len(note):
                self._lose(text)
                return
            self._gap = 0
        left = text[self._written(text) :]
        if left:
            self._lose(left)

    def _written(self, text: bytes) -> int:
        count = 0
        try:
            while count < len(text):
                count += os.write(self._file, text[count:])
        except OSError as problem:
            self.problem = problem
        return count

    def _lose(self, text: bytes) -> None:
        self.lost += len(text)
        self._gap += len(text)
        self.last_lost = (self.last_lost + text)[-_REMEMBERED_BYTES:]


def _cut_beside(spans: list[Span], wanted: int) -> int:
    """Where to cut a text at the wanted place or before it, so that no secret and no words before one are cut."""
    past = 0
    for start, end in spans:
        if start - _WORDS_BEFORE < wanted < end:
            return max(past, start - _WORDS_BEFORE) or end
        if end > wanted:
            break
        past = end
    return wanted
