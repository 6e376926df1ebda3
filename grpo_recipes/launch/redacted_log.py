"""train.log as it is written: everything that a run prints, without secrets."""

import contextlib
import os
import threading
from collections.abc import Iterator

from grpo_recipes.trust.redact import hide_secrets

_LONGEST_LINE = 1 << 20
_LAST_WORDS_S = 5.0


@contextlib.contextmanager
def redacted_log(path: str) -> Iterator[int]:
    """A descriptor whose lines are appended to the file without secrets; all are there when the block is left.

    Whatever a child still holds of it afterwards goes nowhere.
    """
    reading, writing = os.pipe()
    copying = threading.Thread(target=_copy, args=(reading, path), daemon=True)
    copying.start()
    try:
        yield writing
    finally:
        os.close(writing)
        copying.join(_LAST_WORDS_S)


def _copy(reading: int, path: str) -> None:
    with open(reading, "rb", buffering=0) as source, open(path, "ab", buffering=0) as log:
        rest = b""
        while content := source.read(1 << 16):
            rest += content
            # A bar that moves ends its lines with \r. A secret that is cut in two would be seen.
            whole = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
            if whole == 0 and len(rest) > _LONGEST_LINE:
                whole = len(rest) - (_LONGEST_LINE >> 1)
            log.write(_hidden(rest[:whole]))
            rest = rest[whole:]
        log.write(_hidden(rest))


def _hidden(content: bytes) -> bytes:
    return hide_secrets(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
