"""What may wait a moment and need not be on the disk at once: written by a thread of its own."""

import threading
from collections.abc import Callable, Mapping
from typing import Any


class Later:
    """Keeps the newest values until they are taken, and asks a thread to write them, which takes them as it does.

    write: called in that thread; what it raises is raised by the next call of add().
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._is_due = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None

    def add(self, values: Mapping[str, Any]) -> None:
        """Keeps values, each in place of an older one of its name. Raises what the last writing did, once."""
        with self._lock:
            self._values.update(values)
            problem, self._problem = self._problem, None
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="record", daemon=True)
                self._thread.start()
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

    def _go_on(self) -> None:
        while self._is_due.wait():
            self._is_due.clear()
            try:
                self._write()
            except Exception as problem:
                self._problem = problem
