"""Handles signals: the first one stops the run after the current step, a second one ends it immediately."""

import _thread
import atexit
import gc
import io
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from grpo_recipes.contract.exits import EXIT_INTERRUPTED
from grpo_recipes.contract.host.processes import ASKING


class Interruption:
    """Tracks whether a signal has asked the run to stop.

    on_first: called at the first signal; on_end: before the process ends immediately. grace_s: a launcher and a
    terminal may both forward the same signal, so signals within this time after the first count as one.
    """

    def __init__(self, on_end: Callable[[], object] = lambda: None, grace_s: float = 3.0) -> None:
        self.requested = False
        self.can_wait = False
        self.on_first: Callable[[], object] = lambda: None
        self.on_end = on_end
        self._grace_s = grace_s
        self._first: float | None = None

    def listen(self) -> None:
        """Installs the handlers. A thread gets signals even while the main thread waits in a collective.

        A closing terminal sends SIGHUP, which does not end the run.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        for number in ASKING:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else lambda *_: None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader, writer), name="signals", daemon=True).start()

    def _watch(self, reader: socket.socket, writer: socket.socket) -> None:
        # `writer` is only kept open: signals are written to its descriptor.
        while numbers := reader.recv(64):
            for number in numbers:
                if number in ASKING:
                    self._receive()

    def _receive(self) -> None:
        now = time.monotonic()
        if self.can_wait and self._first is None:
            self._first, self.requested = now, True
            self.on_first()
        elif self._first is None or now - self._first > self._grace_s:
            self.on_end()
            sys.stdout.flush()
            os._exit(EXIT_INTERRUPTED)


# Time for uploads that libraries run in a thread.
PATIENCE_S = 10.0
_MULTIPROCESSING_S = 2.0


def leave_soon(code: int, patience_s: float = PATIENCE_S) -> None:
    """Exits with the code after `patience_s` if leftovers keep the process from ending.

    It watches the main thread, which must be ending: Python waits for non-daemon threads, and multiprocessing for
    non-daemon children. Exit handlers of libraries still run.
    """
    main = threading.main_thread().ident

    def watch() -> None:
        time.sleep(patience_s)
        while True:
            waits_for = _waits_for(main)
            if waits_for is not None:
                for child in multiprocessing.active_children():
                    child.kill()
                print(f"note: ended without {waits_for}, which a reward left running", file=sys.stderr, flush=True)
                if "thread" in waits_for:
                    atexit._run_exitfuncs()
                    sys.stdout.flush()
                    os._exit(code)
            time.sleep(_MULTIPROCESSING_S)

    # threading.Thread waits until its thread reports that it runs, and forever if that thread has no memory to do so.
    with suppress(RuntimeError, MemoryError):
        _thread.start_new_thread(watch, ())


def leave(code: int) -> NoReturn:
    """Exits with the code as Python does, but without C++ destructors if there are several processes.

    With several processes these occasionally abort ("terminate called without an active exception"), and a completed
    run would exit with 1.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _close_files()
        os._exit(code)
    sys.exit(code)


def _close_files() -> None:
    """Flushes open files: texts first, then compressors, then the files beneath them."""
    files: list[Any] = [each for each in gc.get_objects() if issubclass(type(each), io.TextIOBase | io.BufferedIOBase)]
    for each in sorted(
        files, key=lambda file: (isinstance(file, io.BufferedWriter), isinstance(file, io.BufferedIOBase))
    ):
        with suppress(Exception):
            each.flush() if isinstance(each, io.BufferedWriter) else each.close()


def _waits_for(main: int | None) -> str | None:
    """Returns in words what keeps the main thread from ending; None if it does something else."""
    frame = sys._current_frames().get(main or 0)
    while frame is not None:
        where = (os.path.basename(frame.f_code.co_filename), frame.f_code.co_name)
        if where == ("threading.py", "_shutdown"):
            names = [each.name for each in threading.enumerate() if not each.daemon and each.ident != main]
            return f"thread{'s' if len(names) != 1 else ''} {', '.join(names[:8])}"
        if where == ("util.py", "_exit_function"):
            return "processes of multiprocessing"
        frame = frame.f_back
    return None
