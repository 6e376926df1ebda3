"""Runs the user's code in a preflight process with limits on time and memory.

`run_part` starts and watches the process; inside it, `open_request` reads the request and records each step, so the
watcher knows what was running if the process dies or hangs.
"""

import contextlib
import faulthandler
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO, TypeVar

from grpo_recipes.contract.host.processes import die_with_parent
from grpo_recipes.worker._shared.part_program import PART_PROGRAM
from grpo_recipes.worker.user_code.reward_call import is_reward_file

POLL_S = 0.03
# The process times its own calls; the watcher kills it this much later.
GRACE_S = 1.0
# Time to start Python and import the worker before the first event, also on a busy machine.
START_S = 60.0
FREE_SHARE = 0.8
T = TypeVar("T")
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Told:
    """The events that a process reported. end: how it ended early, "time", "memory", or in words; else "".

    place: the user's line at that moment.
    """

    events: list[dict[str, Any]]
    end: str
    place: str


def run_part(
    part: str, request: object, paths: list[Path], user: str, time_limit: float, memory_limit: int | None
) -> Told:
    """Runs a part of the worker on a request, which is pickled, until it ends.

    paths: of the request, the events and the trace. time_limit: seconds between two events. memory_limit: bytes, None
    for four fifths of the free memory.
    """
    paths[0].write_bytes(pickle.dumps(request))
    for path in paths[1:]:
        path.write_text("")
    process = subprocess.Popen(
        [sys.executable, "-P", PART_PROGRAM, part, *map(str, paths)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        ended_by = _watch(process, paths[1], time_limit, memory_limit or _spare_memory())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Told(_events(paths[1]), ended_by or _end_of(process.returncode), _innermost_line(paths[2], user))


class Notes:
    """The process's own record: a line of JSON per step, and its stack shortly before the time limit."""

    def __init__(self, events: TextIO, trace: TextIO, time_limit: float) -> None:
        self._events, self._trace, self._time_limit = events, trace, time_limit

    def note(self, event: dict[str, Any]) -> None:
        """Writes one line, which the watcher sees immediately."""
        self._events.write(json.dumps(event, default=str) + "\n")
        self._events.flush()

    @contextlib.contextmanager
    def limit_step(self) -> Iterator[None]:
        """Writes the stack shortly before a step's time limit."""
        self._limit()
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _limit(self) -> None:
        faulthandler.dump_traceback_later(max(self._time_limit * 0.95, 0.05), file=self._trace)

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Restarts the watcher's time limit after a block of imports."""
        faulthandler.cancel_dump_traceback_later()  # it reads running frames, which can crash within a long import
        self.note({"event": "importing"})
        yield
        self.note({"event": "imported"})
        self._limit()


@contextlib.contextmanager
def open_request(arguments: Sequence[str]) -> Iterator[tuple[Any, Notes]]:
    """Yields the request that `run_part` passed to this process, and the notes to write."""
    request_file, events_file, trace_file = arguments
    die_with_parent()
    with open(events_file, "w", encoding="utf-8") as events, open(trace_file, "w", encoding="utf-8") as trace:
        faulthandler.enable(trace)
        request = pickle.loads(Path(request_file).read_bytes())
        yield request, Notes(events, trace, request.time_limit)


def _watch(process: "subprocess.Popen[bytes]", events: Path, time_limit: float, memory_limit: int) -> str:
    """Waits for the end; returns "time" or "memory" if the process was killed for that, "" otherwise."""
    size, since, allowed = 0, time.monotonic(), START_S
    while process.poll() is None:
        written = events.stat().st_size
        if written != size:
            size, since = written, time.monotonic()
            imports = _events(events)[-1:] == [{"event": "importing"}]
            allowed = START_S if imports else time_limit + GRACE_S
        if time.monotonic() - since > allowed:
            return "time"
        if _resident(process.pid) > memory_limit:
            return "memory"
        time.sleep(POLL_S)
    return ""


def _resident(pid: int) -> int:
    """Returns a process's resident memory in bytes; 0 without /proc."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _spare_memory() -> int:
    """Returns four fifths of the free memory, in bytes."""
    free = [1 << 50]
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        free.append(int(text.partition("MemAvailable:")[2].split()[0]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        free.append(int(limit) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    return int(max(min(free), 1 << 28) * FREE_SHARE)


def _events(path: Path) -> list[dict[str, Any]]:
    """Returns the complete lines of the events file."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return events


def of_event(kind: type[T], event: dict[str, Any]) -> T:
    """Returns an event as a dataclass, by its field names."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in event.items() if name in known})


def _end_of(code: int) -> str:
    """Returns in words how a process ended early."""
    if code < 0:
        name = signal.Signals(-code).name if -code in {each.value for each in signal.Signals} else str(-code)
        return f"signal {name}"
    return f"exit code {code}"


def end_words(end: str, time_limit: float) -> str:
    """Returns in words how a process ended early, to follow its name."""
    return {"time": f"did not return within {time_limit:g} s", "memory": "exceeded its memory limit"}.get(
        end, f"ended its process with {end}"
    )


def _innermost_line(path: Path, user: str) -> str:
    """Returns the user's innermost line in faulthandler's output."""
    for file, line, name in FRAME.findall(path.read_text(encoding="utf-8", errors="replace")):
        if is_reward_file(file, user):
            return f"{Path(file).name}:{line} in {name}"
    return ""
