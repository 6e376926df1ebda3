"""What a program prints, copied to a file without secrets. Whoever prints is never kept waiting by a full disk."""

import os
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_append
from grpo_recipes.contract.secrets.redact import Span, cut_out, secret_spans

_LONGEST_LINE = 1 << 20
_KEPT_OF_A_LINE = 1 << 17
_WORDS_BEFORE = 128
"""Bytes before a secret that say that it is one."""
_REMEMBERED_BYTES = 1 << 16


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

    def copy(self, source: int) -> None:
        """Copies all that a descriptor gives until its end, and closes both."""
        try:
            while content := os.read(source, 1 << 16):
                self._add(content)
            self._append(self._rest)
        finally:
            os.close(source)
            os.close(self._file)

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
