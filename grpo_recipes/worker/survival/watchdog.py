"""A thread that sees when a step, or what is between two steps, does not end."""

import faulthandler
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.planned_guards import Guards
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.guards.alarm import Alarm
from grpo_recipes.worker.survival.looked_on import LookedOn
from grpo_recipes.worker.survival.stacks import stacks_file

LONGEST_POLL_S = 1.0
# The thread ends the process itself, if it can: only when it says nothing for so much longer does the onlooker.
SLACK_S = 10.0
STEP = "a step"
OWN_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python")


@dataclass(frozen=True, slots=True)
class Watched:
    """What the main thread does since `began`, and the seconds after which that is late, and ended."""

    what: str
    step: int
    began: float
    longest_s: float
    end_s: float


class Watchdog:
    """Watches the time of each step between begin() and end(), and of all else between one word of it and the next.

    stacks: the file that gets the stacks of all threads. on_late: called in the thread, once for what takes too long,
    and a second time, with True, when it is to end. looked_on: is told that the thread runs, where what takes too long
    ends the process. ddp_timeout_s: None where one process trains alone.
    """

    def __init__(
        self,
        guards: Guards,
        stacks: Path,
        on_late: Callable[[Alarm, bool], None],
        looked_on: LookedOn,
        ddp_timeout_s: float | None,
    ) -> None:
        self._guards, self._stacks, self._on_late = guards, stacks, on_late
        self._looked_on, self._ddp_timeout_s = looked_on, ddp_timeout_s
        self._durations: deque[float] = deque(maxlen=no_progress.REMEMBERED_STEPS)
        self._step = 0
        self._watched = self._now("the start of the training", no_progress.longest(guards, ()))
        self._main = threading.get_ident()
        self._poll_s = min(LONGEST_POLL_S, guards.no_progress_seconds / 8)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self) -> None:
        """A step begins."""
        self._step += 1
        self._watched = self._now(STEP, no_progress.longest(self._guards, self._durations))

    def end(self) -> None:
        """A step has ended: what follows it, logging and saving, has no median."""
        if self._watched.what == STEP:
            self._durations.append(time.monotonic() - self._watched.began)
        self.still("what follows a step")

    def still(self, what: str) -> None:
        """Something that is no step begins, or goes on."""
        self._watched = self._now(what, no_progress.longest(self._guards, ()))

    def _now(self, what: str, longest_s: float) -> Watched:
        end_s = no_progress.end_after(longest_s, self._ddp_timeout_s)
        now = Watched(what, self._step, time.monotonic(), longest_s, end_s)
        self._tell(now, end_s)  # the thread may never run again
        return now

    def _tell(self, watched: Watched, left_s: float) -> None:
        if self._guards.no_progress == "stop":
            self._looked_on.alive(left_s + SLACK_S, watched.step, watched.what)

    def _watch(self) -> None:
        """Counts only time in which this thread could run: a process that was stopped has not hung."""
        watched, waited, said = self._watched, 0.0, 0
        last = time.monotonic()
        while True:
            time.sleep(self._poll_s)
            now = time.monotonic()
            gap, last = min(now - last, 2 * self._poll_s), now
            if watched is not self._watched:
                watched, waited, said = self._watched, 0.0, 0
            waited = min(waited + gap, now - watched.began)
            self._tell(watched, max(watched.end_s - waited, 0.0))
            if said == 0 and waited > watched.longest_s:
                said = 1
                self._late(watched, waited, is_last=False)
            elif said == 1 and waited > watched.end_s:
                said = 2
                self._late(watched, waited, is_last=True)

    def _late(self, watched: Watched, waited: float, *, is_last: bool) -> None:
        with open(stacks_file(self._stacks), "a", encoding="utf-8") as file:
            file.write(f"{watched.what} {watched.step} of this process takes {waited:.0f} s\n")
            file.flush()
            faulthandler.dump_traceback(file, all_threads=True)
            file.write("\n")
        self._looked_on.look()
        durations = list(self._durations) if watched.what == STEP else []
        stacks = f"{self._stacks.parent.name}/{self._stacks.name}"
        alarm = no_progress.alarm(waited, watched.what, durations, stacks, self._where())
        if self._watched is watched:  # it has not ended meanwhile
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
