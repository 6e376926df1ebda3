"""A thread that sees when an optimizer step does not end."""

import faulthandler
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from grpo_recipes.plan import Guards
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.guards.alarm import Alarm

LONGEST_POLL_S = 1.0
OWN_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python")


class Watchdog:
    """Watches the time of each step between begin() and end().

    stacks: the file that gets the stacks of all threads. on_late: called in the thread, once for a step that takes
    too long, and a second time, with True, when it takes four times as long as that.
    """

    def __init__(self, guards: Guards, stacks: Path, on_late: Callable[[Alarm, bool], None]) -> None:
        self._guards, self._stacks, self._on_late = guards, stacks, on_late
        self._durations: deque[float] = deque(maxlen=no_progress.REMEMBERED_STEPS)
        self._began: float | None = None
        self._step = 0
        self._bound: float | None = None
        self._main = threading.get_ident()
        self._closed = threading.Event()
        self._poll_s = min(LONGEST_POLL_S, guards.no_progress_seconds / 8)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self) -> None:
        """A step begins. The thread counts from here on."""
        self._bound = no_progress.longest(self._guards, self._durations)
        self._step += 1
        self._began = time.monotonic()

    def end(self) -> None:
        """It has ended, or something else begins that may take its time."""
        if self._began is not None:
            self._durations.append(time.monotonic() - self._began)
        self._began = None

    def close(self) -> None:
        """Ends the thread."""
        self._began = None
        self._closed.set()

    def _watch(self) -> None:
        """Counts only time in which this thread could run: a process that was stopped has not hung."""
        step, waited, said = 0, 0.0, 0
        last = time.monotonic()
        while not self._closed.wait(self._poll_s):
            now = time.monotonic()
            gap, last = min(now - last, 2 * self._poll_s), now
            began, bound = self._began, self._bound
            if began is None or bound is None:
                continue
            if step != self._step:
                step, waited, said = self._step, 0.0, 0
            waited = min(waited + gap, now - began)
            if said == 0 and waited > bound:
                said = 1
                self._late(began, waited, is_last=False)
            elif said == 1 and waited > no_progress.STOP_AFTER * bound:
                said = 2
                self._late(began, waited, is_last=True)

    def _late(self, began: float, waited: float, *, is_last: bool) -> None:
        self._stacks.parent.mkdir(exist_ok=True)
        with self._stacks.open("a", encoding="utf-8") as file:
            file.write(f"step {self._step} of this process takes {waited:.0f} s\n")
            file.flush()
            faulthandler.dump_traceback(file, all_threads=True)
            file.write("\n")
        durations = list(self._durations)
        alarm = no_progress.alarm(waited, durations, f"{self._stacks.parent.name}/{self._stacks.name}", self._where())
        if self._began == began:  # it has not ended meanwhile
            self._on_late(alarm, is_last)

    def _where(self) -> str:
        """The innermost line of the main thread, with the innermost one outside of libraries if that is another."""
        frame = sys._current_frames().get(self._main)
        if frame is None:
            return "an unknown place"
        innermost, own = frame, frame
        while own.f_back is not None and any(part in own.f_code.co_filename for part in OWN_FOLDERS):
            own = own.f_back
        places = [innermost] if own is innermost or own.f_back is None else [innermost, own]
        return ", called from ".join(
            f"{Path(place.f_code.co_filename).name}:{place.f_lineno} in {place.f_code.co_name}" for place in places
        )
