"""The end of a process whose training has ended: threads and processes that a reward left do not keep it."""

import _thread
import atexit
import gc
import io
import multiprocessing
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

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
