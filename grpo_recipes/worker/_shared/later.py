"""What may wait a moment and need not be on the disk at once: written by a thread of its own."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

# A disk that does not answer holds up nobody for longer than that.
_LONGEST_REST_S = 10.0
_all: "weakref.WeakSet[Later]" = weakref.WeakSet()


def come_to_rest(longest_s: float = _LONGEST_REST_S) -> None:
    """Waits until nothing is being written or due in this process, or for so long in seconds.

    Before code that changes what all threads share, as the working folder or the numbers of open files.
    """
    give_up = time.monotonic() + longest_s
    for each in tuple(_all):
        each.come_to_rest(give_up - time.monotonic())


class Later:
    """Keeps the newest values until they are taken, and asks a thread to write them, which takes them as it does.

    write: called in that thread; what it raises is raised by the next call of add().
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._is_due = threading.Event()
        self._is_at_rest = threading.Event()
        self._is_at_rest.set()
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        _all.add(self)

    def add(self, values: Mapping[str, Any]) -> None:
        """Keeps values, each in place of an older one of its name. Raises what the last writing did, once."""
        with self._lock:
            self._values.update(values)
            problem, self._problem = self._problem, None
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="record", daemon=True)
                self._thread.start()
            self._is_at_rest.clear()
            self._is_due.set()
        if problem is not None:
            raise problem

    def waiting(self) -> dict[str, Any]:
        """What is kept and not yet taken."""
        with self._lock:
            return dict(self._values)

    def take(self) -> dict[str, Any]:
        """What is kept, for the one who writes it now."""
        with self._lock:
            taken, self._values = self._values, {}
            return taken

    def give_back(self, values: Mapping[str, Any]) -> None:
        """Keeps on what could not be written, but for what is newer."""
        with self._lock:
            self._values = {**values, **self._values}

    def come_to_rest(self, longest_s: float) -> None:
        """Waits for the thread, where there is one: a fork has none."""
        if not self._is_at_rest.is_set() and self._thread is not None and self._thread.is_alive():
            self._is_at_rest.wait(longest_s)

    def _go_on(self) -> None:
        while self._is_due.wait():
            self._is_due.clear()
            try:
                self._write()
            except Exception as problem:
                self._problem = problem
            with self._lock:
                if not self._is_due.is_set():
                    self._is_at_rest.set()
