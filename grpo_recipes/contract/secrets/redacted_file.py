"""Copies a program's output to a file without secrets; neither a full disk nor a flood of output blocks the program."""

import errno
import os
import time
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_append
from grpo_recipes.contract.secrets.redact import Span, cut_out, secret_spans

_LONGEST_LINE = 1 << 20
_KEPT_OF_A_LINE = 1 << 17
_WORDS_BEFORE = 128
"""Bytes before a secret that may identify it."""
_REMEMBERED_BYTES = 1 << 16
_AT_ONCE, _PER_S = 16 << 20, 1 << 16
"""The bytes that are written at once, and on average per second. A reward that printed 60 MB a call filled disks."""
_FLOOD = OSError(errno.EFBIG, f"more than {_PER_S >> 10} KiB a second were printed")


class RedactedFile:
    """Appends to a file, whole lines at a time. Raises OSError if it cannot be opened.

    Lines that cannot be written, or that exceed the limit, are dropped, and the next ones are tried again. lost: number
    of missing bytes; problem: the latest reason, None if nothing is missing; last_lost: the end of what is missing.
    """

    def __init__(self, path: str) -> None:
        self.lost = 0
        self.problem: OSError | None = None
        self.last_lost = b""
        self._file = open_to_append(Path(path).parent, Path(path).name)
        self._rest = b""
        self._gap = 0
        self._room, self._at = float(_AT_ONCE), time.monotonic()

    def copy(self, source: int) -> None:
        """Copies everything from a descriptor to its end, and closes both."""
        try:
            while content := os.read(source, 1 << 16):
                self._add(content)
            self._append(self._rest)
            self._write_last_lost()
        finally:
            os.close(source)
            os.close(self._file)

    def _add(self, content: bytes) -> None:
        self._rest += content
        # Progress bars end their lines with \r. A secret that is cut in two would be visible.
        whole = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1
        if whole == 0 and len(self._rest) > _LONGEST_LINE:
            self._cut_long_line()
        elif whole:
            self._append(self._rest[:whole])
            self._rest = self._rest[whole:]

    def _cut_long_line(self) -> None:
        """Writes most of a line that does not end, keeping more than the length of a secret, so that none is cut."""
        spans = secret_spans(self._rest)
        cut = _cut_beside(spans, len(self._rest) - _KEPT_OF_A_LINE)
        self._append_hidden(cut_out(self._rest[:cut], [(start, min(end, cut)) for start, end in spans if start < cut]))
        self._rest = self._rest[cut:]

    def _append(self, content: bytes) -> None:
        self._append_hidden(cut_out(content, secret_spans(content)))

    def _append_hidden(self, text: bytes) -> None:
        now = time.monotonic()
        self._room, self._at = min(float(_AT_ONCE), self._room + (now - self._at) * _PER_S), now
        if len(text) > self._room:
            self.problem = _FLOOD
            self._lose(text)
            return
        self._room -= len(text)
        self._write(text)

    def _write_last_lost(self) -> None:
        """Writes the end of a flood, which may be the error that ended the program."""
        if self._gap and self.problem is _FLOOD:
            end = self.last_lost[-self._gap :]
            self._gap -= len(end)
            self.lost -= len(end)
            self._write(end)

    def _write(self, text: bytes) -> None:
        if text and self._gap:
            why = "" if self.problem is None else f": {self.problem.strerror}"
            note = f"\n[{self._gap} bytes of output are missing here{why}]\n".encode()
            if self._write_all(note) < len(note):
                self._lose(text)
                return
            self._gap = 0
        left = text[self._write_all(text) :]
        if left:
            self._lose(left)

    def _write_all(self, text: bytes) -> int:
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
    """The position at or before the wanted one that cuts no secret and no words before one."""
    past = 0
    for start, end in spans:
        if start - _WORDS_BEFORE < wanted < end:
            return max(past, start - _WORDS_BEFORE) or end
        if end > wanted:
            break
        past = end
    return wanted
