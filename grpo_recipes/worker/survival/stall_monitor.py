"""Ends a process whose training stalls, and records that one of several processes died.

A second program (`part.py survival.stall_monitor`) watches each process, since code that holds the interpreter's lock,
such as a regular expression that backtracks endlessly, stops every thread. A timer in the process, such as that of
faulthandler, also counts the time in which a job was suspended, and would end it when it continues. The program counts
only time in which it and the process could run. It outlives the process for a moment to record its death, since a
process that the kernel kills for its memory cannot.
"""

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from grpo_recipes.contract.event_words import guard_line
from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import make_folder, open_to_append
from grpo_recipes.contract.host.processes import ASKING, die_with_parent, process
from grpo_recipes.contract.metrics import METRICS_FILE
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.worker._shared.metrics import append_event
from grpo_recipes.worker._shared.part_program import PART_PROGRAM
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.guards.alarm import Alarm, refusal

POLL_S = 1.0
STACKS_S = 2.0
# If several processes are killed together, none may report that it died alone.
TOGETHER_S = 1.0
OWN_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python")
# The process writes a file in memory, and the program reads it: one line about the current activity, a byte that is set
# if the process is expected to end, then the stacks.
_LINE_BYTES = 512
_IS_EXPECTED = b"x"
_PARENT_DIED = signal.SIGRTMIN
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_file: int | None = None


class StallMonitor:
    """Tells the program about each step between begin() and end(), and about everything else from still() on.

    step: the number of the current step. ddp_timeout_s: None for a single process. Training is unaffected if the
    program dies.
    """

    def __init__(self, guards: Guards, step: Callable[[], int], ddp_timeout_s: float | None) -> None:
        self._guards, self._step, self._ddp_timeout_s = guards, step, ddp_timeout_s
        self._durations: deque[float] = deque(maxlen=no_progress.REMEMBERED_STEPS)
        self._size = _size()
        self.still("the start of the training")

    def begin(self) -> None:
        """Starts timing a step."""
        self._tell(no_progress.STEP, self._durations)

    def end(self) -> None:
        """Stops timing the step: logging and saving, which follow, have no median."""
        if self._what == no_progress.STEP:
            self._durations.append(time.monotonic() - self._began)
        self.still("logging or saving after a step")

    def still(self, what: str) -> None:
        """Starts timing an activity that is not a step, or restarts it."""
        self._tell(what, ())

    def late_s(self) -> float | None:
        """Returns the seconds of the current activity if the program found it late since the last call, else None."""
        before, self._size = self._size, _size()
        return time.monotonic() - self._began if self._size > before else None

    def _tell(self, what: str, durations: Sequence[float]) -> None:
        self._what, self._began = what, time.monotonic()
        if _file is not None:
            usual_s = median(durations) if len(durations) >= no_progress.FEWEST_STEPS else None
            longest_s = no_progress.longest(self._guards, durations)
            end_s = no_progress.end_after(longest_s, self._ddp_timeout_s)
            activity = [self._began, what, self._step(), usual_s, longest_s, end_s, self._guards.no_progress]
            os.pwrite(_file, json.dumps(activity).encode().ljust(_LINE_BYTES), 0)


def _size() -> int:
    return 0 if _file is None else os.fstat(_file).st_size


def start_program(folder: Path, rank: int, processes: int) -> None:
    """Starts the program next to this process. processes: of the run; a single process's parent notices its death."""
    global _file
    _file = os.memfd_create("stalls")
    os.write(_file, b" " * (_LINE_BYTES + len(_IS_EXPECTED)))
    # Neither of these needs the interpreter's lock.
    faulthandler.register(signal.SIGUSR2, file=_file, all_threads=True)
    faulthandler.enable(file=_file, all_threads=True)
    words = [PART_PROGRAM, "survival.stall_monitor", str(folder), *map(str, (rank, os.getpid(), _file, processes))]
    subprocess.Popen([sys.executable, "-I", "-S", *words], stdin=subprocess.DEVNULL, pass_fds=[_file])


def expect_end() -> None:
    """Tells the program that this process was asked to end, or ends and has recorded why."""
    if _file is not None:
        os.pwrite(_file, _IS_EXPECTED, _LINE_BYTES)


def stacks_file(folder: Path, rank: int) -> int:
    """Opens stalled/rank-N.txt of a run folder for appending, and returns its descriptor. Raises OSError."""
    make_folder(folder, "stalled")
    return open_to_append(folder, _name(rank))


def _name(rank: int) -> str:
    return f"stalled/rank-{rank}.txt"


def main(arguments: Sequence[str]) -> None:
    """Watches a process until it ends. arguments: see start_program."""
    for number in (*ASKING, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a terminal or a cluster sends them to every process
    folder, rank, pid, file, processes = Path(arguments[0]), *(int(word) for word in arguments[1:])
    signal.pthread_sigmask(signal.SIG_BLOCK, [_PARENT_DIED])
    die_with_parent(_PARENT_DIED)
    watched = _Watched(folder, rank, pid, file)
    while os.getppid() == pid:
        signal.sigtimedwait([_PARENT_DIED], POLL_S)
        watched.look()
    if processes > 1 and os.pread(file, len(_IS_EXPECTED), _LINE_BYTES) != _IS_EXPECTED:
        _record_death(folder, rank, watched.new_stacks())


class _Watched:
    """The process, and for how long it could run since its last report."""

    def __init__(self, folder: Path, rank: int, pid: int, file: int) -> None:
        self._folder, self._rank, self._pid, self._file = folder, rank, pid, file
        self._line, self._waited, self._alarms, self._last = b"", 0.0, 0, time.monotonic()
        self._read = _LINE_BYTES + len(_IS_EXPECTED)

    def look(self) -> None:
        """Counts the time since the last look, warns if the process is late, and ends it if it stays late."""
        now, watched = time.monotonic(), process(self._pid)
        gap, self._last = min(now - self._last, 2 * POLL_S), now
        if not self._has_moved() and watched is not None and watched.state not in "Tt":
            self._waited += gap
        with suppress(ValueError):  # no report yet, or one that is being written
            activity = no_progress.Activity(*json.loads(self._line)[1:])
            if self._alarms < 2 and self._waited > (activity.longest_s, activity.end_s)[self._alarms]:
                self._alarms += 1
                self._late(activity)

    def new_stacks(self) -> str:
        """Returns what the process has written since the last call."""
        content = os.pread(self._file, 1 << 20, self._read)
        self._read += len(content)
        return content.decode(errors="replace")

    def _has_moved(self) -> bool:
        before, self._line = self._line, os.pread(self._file, _LINE_BYTES, 0)
        if self._line != before:
            self._waited, self._alarms = 0.0, 0
        return self._line != before

    def _late(self, activity: no_progress.Activity) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGUSR2)
        time.sleep(STACKS_S)
        stacks = self.new_stacks()
        is_end = self._alarms == 2
        if is_end and (activity.action != "stop" or self._has_moved()):
            return
        with suppress(OSError), open(stacks_file(self._folder, self._rank), "a", encoding="utf-8") as file:
            file.write(f"step {activity.step}: {activity.what} takes {self._waited:.0f} s\n{stacks}\n")
        action = "warn" if activity.action == "stop" and not is_end else activity.action
        alarm = no_progress.alarm(activity, self._waited, _name(self._rank), _where(stacks))
        record = Record(self._folder, self._rank)
        known = next((each for each in record.guards() if each["name"] == no_progress.NAME), {"count": 0})
        event = {
            "id": no_progress.ID,
            "name": no_progress.NAME,
            "action": action,
            "value": alarm.value,
            "count": known["count"] + self._alarms,
        }
        finding = alarm.finding
        words = {"message": finding.message, "because": list(finding.because), "fix": finding.fix}
        if self._rank == 0:
            self._log(activity.step, redact_value({**event, **words}))
        if is_end:
            entry = {"first_step": activity.step, **known, **event, "last_step": activity.step}
            self._end(record, entry, alarm)
        else:
            print(hide_secrets(guard_line({"step": activity.step, **event, **words})), flush=True)

    def _log(self, step: int, event: Any) -> None:
        with suppress(OSError):
            file = open_to_append(self._folder, METRICS_FILE)
            append_event(file, self._folder / METRICS_FILE, "guard", step, event)
            os.close(file)

    def _end(self, record: Record, guard: dict[str, Any], alarm: Alarm) -> None:
        """Records why the run ends, and kills the process, which is stopped first: it may wake up in this moment."""
        step = guard["last_step"]
        stopped = Refused(refusal(guard["name"], guard["id"], step, alarm))
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGSTOP)
        try:
            others = [each for each in record.guards() if each["name"] != guard["name"]]
            with suppress(OSError):
                record.update(step=step - 1, guards=[*others, guard])
            record.end("stopped", EXIT_STOPPED, stopped)
            print(hide_secrets(f"error: {stopped}"), file=sys.stderr, flush=True)
        finally:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _where(stacks: str) -> str:
    """Returns the main thread's innermost line, and its innermost line outside of libraries if different."""
    # Threads are listed from the newest to the first, which is the main thread.
    frames = _FRAME.findall(stacks.rpartition("hread 0x")[2])
    own = [frame for frame in frames if not any(folder in frame[0] for folder in OWN_FOLDERS)]
    places = [f"{Path(file).name}:{line} in {name}" for file, line, name in dict.fromkeys([*frames[:1], *own[:1]])]
    return ", called from ".join(places) or "an unknown place"


def _record_death(folder: Path, rank: int, stacks: str) -> None:
    """Records a process that ended without recording a reason, unless another process recorded the run's end.

    After other processes were lost, torch's NCCL watchdog aborts a process from a thread without Python. grpo-run
    itself explains that case from the watchdog's message in the log.
    """
    time.sleep(TOGETHER_S)
    print(hide_secrets(stacks), file=sys.stderr, end="", flush=True)
    if "Fatal Python error: Aborted" in stacks and "Current thread" not in stacks:
        return
    message = f"process {rank} ended without an error message: it was killed (out of memory?) or crashed in a library"
    if Record(folder, rank).end("failed", EXIT_FAILED, message):
        print(f"error: {message}", file=sys.stderr, flush=True)
