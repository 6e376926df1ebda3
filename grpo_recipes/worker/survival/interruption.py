"""A first signal asks the run to stop after the current step; a second one ends it at once."""

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
from grpo_recipes.contract.host.standard_streams import Hangups

_POLL_S = 0.05


class Interruption:
    """Whether a signal has come that asks to stop.

    on_first: called when it has; on_end: before the process ends at once. grace_s: a launcher and a terminal may both
    pass the same wish on, so signals within this time after the first are the same signal.
    """

    def __init__(self, on_end: Callable[[], object] = lambda: None, grace_s: float = 3.0) -> None:
        self.requested = False
        self.can_wait = False
        self.on_first: Callable[[], object] = lambda: None
        self.on_end = on_end
        self._grace_s = grace_s
        self._first: float | None = None
        self._hangups = Hangups()

    def listen(self) -> None:
        """Takes the signals over. A thread sees them even while the main thread waits inside a collective.

        An ignored hangup stays ignored, as nohup wants it.
        """
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        for number in ASKING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader, writer), name="signals", daemon=True).start()

    def _watch(self, reader: socket.socket, writer: socket.socket) -> None:
        # `writer` is only held, so that it is not closed: signals are written to its number.
        while numbers := reader.recv(64):
            for number in numbers:
                if number == signal.SIGHUP and not self._is_wish():
                    print("the terminal is gone; the run goes on, and SIGINT or SIGTERM still saves and stops it")
                elif number in ASKING:
                    self._receive()

    def _is_wish(self) -> bool:
        """Whether somebody sent the SIGHUP, which takes a moment to know where a terminal may have gone away."""
        self._hangups.came()
        while (found := self._hangups.is_wish()) is None:
            time.sleep(_POLL_S)
        return found

    def _receive(self) -> None:
        now = time.monotonic()
        if self.can_wait and self._first is None:
            self._first, self.requested = now, True
            self.on_first()
        elif self._first is None or now - self._first > self._grace_s:
            self.on_end()
            sys.stdout.flush()
            os._exit(EXIT_INTERRUPTED)


# The end of a process whose training has ended: threads and processes that a reward left do not keep it.


# What libraries still upload in a thread of theirs gets so long.
PATIENCE_S = 10.0
_MULTIPROCESSING_S = 2.0


def leave_soon(code: int, patience_s: float = PATIENCE_S) -> None:
    """Ends this process with the exit code when what others left keeps it for longer than that.

    It watches the main thread, which has to end now: Python waits there for threads that are no daemons, and
    multiprocessing for children that are none. What the libraries registered for the end is still called.
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

    # threading.Thread waits until its thread says that it runs. One that finds no memory for that never says it.
    with suppress(RuntimeError, MemoryError):
        _thread.start_new_thread(watch, ())


def leave(code: int) -> NoReturn:
    """Ends this process with the exit code, as Python does, but one of several without the destructors of C++.

    With several processes these abort one now and then ("terminate called without an active exception"), and a run
    whose training is complete would exit with 1.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _close_files()
        os._exit(code)
    sys.exit(code)


def _close_files() -> None:
    """Writes what files still hold: texts first, then what compresses, then what is beneath them."""
    files: list[Any] = [each for each in gc.get_objects() if issubclass(type(each), io.TextIOBase | io.BufferedIOBase)]
    for each in sorted(
        files, key=lambda file: (isinstance(file, io.BufferedWriter), isinstance(file, io.BufferedIOBase))
    ):
        with suppress(Exception):
            each.flush() if isinstance(each, io.BufferedWriter) else each.close()


def _waits_for(main: int | None) -> str | None:
    """What keeps the main thread from ending, in words; None while it does something else."""
    frame = sys._current_frames().get(main or 0)
    while frame is not None:
        place = (os.path.basename(frame.f_code.co_filename), frame.f_code.co_name)
        if place == ("threading.py", "_shutdown"):
            names = [each.name for each in threading.enumerate() if not each.daemon and each.ident != main]
            return f"thread{'s' if len(names) != 1 else ''} {', '.join(names[:8])}"
        if place == ("util.py", "_exit_function"):
            return "processes of multiprocessing"
        frame = frame.f_back
    return None
