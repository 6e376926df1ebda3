"""Ends a process whose training stalls, and records that one of several processes died.

A thread of the process measures each step, and writes the stacks of all threads to stalled/rank-N.txt if a step is
late. Code that holds the interpreter's lock, such as a regular expression that backtracks endlessly, stops that thread
as well, so a second program (`part.py survival.stall_monitor`) ends the process if the thread stops reporting. Both
count only time in which they could run: a suspended job has not stalled. The program outlives the process for a moment
to record its death, since a process that the kernel kills for its memory cannot.
"""

import faulthandler
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import make_folder, open_to_append
from grpo_recipes.contract.host.processes import ASKING, die_with_parent, process
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.guards.alarm import Alarm, refusal

LONGEST_POLL_S = 1.0
# The program waits this much longer than the thread, which ends the process itself if it can.
SLACK_S = 10.0
STACKS_S = 5.0
# If several processes are killed together, none may report that it died alone.
TOGETHER_S = 1.0
STEP = "a step"
OWN_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python")
_PART = Path(__file__).parents[1] / "part.py"
# The process and the program share memory: one line about the current activity, a byte that is set if the process is
# expected to end, then the stacks.
_LINE_BYTES = 256
_IS_EXPECTED = b"x"
_PARENT_DIED = signal.SIGRTMIN
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Watched:
    """The main thread's activity since `began`, and the seconds after which it is late and is ended."""

    what: str
    step: int
    began: float
    longest_s: float
    end_s: float


class StallMonitor:
    """Times each step between begin() and end(), and everything else from one still() to the next call.

    on_late: called in a thread, first if an activity takes too long and again, with True, if the process must end.
    ddp_timeout_s: None for a single process. Training is unaffected if the program dies.
    """

    def __init__(
        self,
        guards: Guards,
        folder: Path,
        rank: int,
        on_late: Callable[[Alarm, bool], None],
        ddp_timeout_s: float | None,
    ) -> None:
        self._guards, self._folder, self._rank = guards, folder, rank
        self._on_late, self._ddp_timeout_s = on_late, ddp_timeout_s
        self._durations: deque[float] = deque(maxlen=no_progress.REMEMBERED_STEPS)
        self._step = 0
        self._main = threading.get_ident()
        self._poll_s = min(LONGEST_POLL_S, guards.no_progress_seconds / 8)
        self._line = _shared if guards.no_progress == "stop" else None
        self._watched = self._now("the start of the training", no_progress.longest(guards, ()))
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()

    def begin(self) -> None:
        """Starts timing a step."""
        self._step += 1
        self._watched = self._now(STEP, no_progress.longest(self._guards, self._durations))

    def end(self) -> None:
        """Stops timing the step: logging and saving, which follow, have no median."""
        if self._watched.what == STEP:
            self._durations.append(time.monotonic() - self._watched.began)
        self.still("logging or saving after a step")

    def still(self, what: str) -> None:
        """Starts timing an activity that is not a step, or restarts it."""
        self._watched = self._now(what, no_progress.longest(self._guards, ()))

    def _now(self, what: str, longest_s: float) -> Watched:
        end_s = no_progress.end_after(longest_s, self._ddp_timeout_s)
        now = Watched(what, self._step, time.monotonic(), longest_s, end_s)
        self._tell(now, end_s)  # the thread may never run again
        return now

    def _tell(self, watched: Watched, left_s: float) -> None:
        """Reports to the program that this process runs. This only writes shared memory, so it costs nothing."""
        if self._line is not None:
            line = f"{time.monotonic()} {left_s + SLACK_S} {watched.step} {watched.what}"
            self._line[:_LINE_BYTES] = line.encode().ljust(_LINE_BYTES)

    def _watch(self) -> None:
        """Watches the main thread, counting only time in which this thread could run."""
        watched, waited, warnings = self._watched, 0.0, 0
        last = time.monotonic()
        while True:
            time.sleep(self._poll_s)
            now = time.monotonic()
            gap, last = min(now - last, 2 * self._poll_s), now
            if watched is not self._watched:
                watched, waited, warnings = self._watched, 0.0, 0
            waited = min(waited + gap, now - watched.began)
            self._tell(watched, max(watched.end_s - waited, 0.0))
            if warnings == 0 and waited > watched.longest_s:
                warnings = 1
                self._late(watched, waited, is_last=False)
            elif warnings == 1 and waited > watched.end_s:
                warnings = 2
                self._late(watched, waited, is_last=True)

    def _late(self, watched: Watched, waited: float, *, is_last: bool) -> None:
        with open(stacks_file(self._folder, self._rank), "a", encoding="utf-8") as file:
            file.write(f"{watched.what} {watched.step} of this process takes {waited:.0f} s\n")
            file.flush()
            faulthandler.dump_traceback(file, all_threads=True)
            file.write("\n")
        durations = list(self._durations) if watched.what == STEP else []
        alarm = no_progress.alarm(waited, watched.what, durations, _name(self._rank), self._where())
        if self._watched is watched:  # still running
            self._on_late(alarm, is_last)

    def _where(self) -> str:
        """Returns the main thread's innermost line, and its innermost line outside of libraries if different."""
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


def stacks_file(folder: Path, rank: int) -> int:
    """Opens stalled/rank-N.txt of a run folder for appending, and returns its descriptor. Raises OSError."""
    make_folder(folder, "stalled")
    return open_to_append(folder, _name(rank))


def _name(rank: int) -> str:
    return f"stalled/rank-{rank}.txt"


_shared: mmap.mmap | None = None
"""The memory that this process shares with the program, see start_program."""


def start_program(folder: Path, rank: int, processes: int) -> None:
    """Starts the program next to this process. processes: of the run; a single process's parent notices its death."""
    global _shared
    file = os.memfd_create("stalls")
    os.write(file, b" " * (_LINE_BYTES + len(_IS_EXPECTED)))
    # Neither of these needs the interpreter's lock.
    faulthandler.register(signal.SIGUSR2, file=file, all_threads=True)
    faulthandler.enable(file=file, all_threads=True)
    words = [str(_PART), "survival.stall_monitor", str(folder), *map(str, (rank, os.getpid(), file, processes))]
    subprocess.Popen([sys.executable, "-I", "-S", *words], stdin=subprocess.DEVNULL, pass_fds=[file])
    _shared = mmap.mmap(file, _LINE_BYTES + len(_IS_EXPECTED))


def expect_end() -> None:
    """Tells the program that this process was asked to end, or ends and has recorded why."""
    if _shared is not None:
        _shared[_LINE_BYTES:] = _IS_EXPECTED


def main(arguments: Sequence[str]) -> None:
    """Ends a process whose line stays unchanged for longer than it states. arguments: see start_program."""
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)  # a terminal or a cluster sends them to every process
    folder, rank, pid, shared, processes = Path(arguments[0]), *(int(word) for word in arguments[1:])
    signal.pthread_sigmask(signal.SIG_BLOCK, [_PARENT_DIED])
    die_with_parent(_PARENT_DIED)
    known, waited, last = b"", 0.0, time.monotonic()
    while os.getppid() == pid:
        signal.sigtimedwait([_PARENT_DIED], LONGEST_POLL_S)
        now, line, found = time.monotonic(), os.pread(shared, _LINE_BYTES, 0), process(pid)
        gap, last = min(now - last, 2 * LONGEST_POLL_S), now
        if line != known:
            known, waited = line, 0.0
        elif found is not None and found.state not in "Tt":
            waited += gap
        if line.strip() and waited > float(line.split()[1]):
            _end_held(folder, rank, pid, shared, waited)
            return
    if processes > 1 and os.pread(shared, len(_IS_EXPECTED), _LINE_BYTES) != _IS_EXPECTED:
        _record_death(folder, rank, _stacks(shared))


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


def _stacks(shared: int) -> str:
    return os.pread(shared, 1 << 20, _LINE_BYTES + len(_IS_EXPECTED)).decode(errors="replace")


def _end_held(folder: Path, rank: int, pid: int, shared: int, waited: float) -> None:
    """Ends a process whose interpreter is held, and records its stacks and the reason."""
    _, _, step, what = os.pread(shared, _LINE_BYTES, 0).decode().rstrip().split(maxsplit=3)
    os.kill(pid, signal.SIGUSR2)
    time.sleep(STACKS_S)
    stacks = _stacks(shared)
    with open(stacks_file(folder, rank), "a", encoding="utf-8") as file:
        file.write(f"{what} {step} of this process, which holds the interpreter's lock\n{stacks}\n")
    # Threads are listed from the newest to the first, which is the main thread.
    frame = _FRAME.search(stacks.rpartition("hread 0x")[2])
    where = f"{Path(frame[1]).name}:{frame[2]} in {frame[3]}" if frame else "an unknown place"
    alarm = no_progress.held(waited, what, _name(rank), where)
    stopped = Refused(refusal(no_progress.NAME, no_progress.ID, int(step), alarm))
    Record(folder, rank).end("stopped", EXIT_STOPPED, stopped)
    print(hide_secrets(f"error: {stopped}"), file=sys.stderr, flush=True)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
