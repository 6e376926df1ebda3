"""Looks at one process of the run from outside, where nothing in that process can keep it from looking.

A program of its own beside each process, with the standard library alone. It takes lines from its standard input:

    alive SECONDS STEP WHAT   the watchdog's thread runs; SECONDS: until it would end the process, or - for never
    look                      add to the file of the stacks what py-spy sees, then answer with a line
    asked                     the process was asked to end: its death is no wonder any more
    bye                       the process ends, and has said why itself

A main thread that holds the interpreter's lock, in a regular expression that backtracks without end or in a library's
own code, stops the thread that should notice. Its lines stop then, and when SECONDS are over the process is ended from
here. Only time in which this program ran counts, and none in which the process was stopped: a job that is suspended
has not hung. When the process dies without a word, as one that the kernel kills for its memory, that is written down;
one that torch's watchdog ended, because it lost the others, was interrupted.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_STOPPED
from grpo_recipes.contract.findings.lost_peer import OTHERS_SAY_WHY_S, lost_by_watchdog
from grpo_recipes.contract.findings.mistake import Mistake
from grpo_recipes.contract.host.processes import ASKING, process
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.guards import no_progress
from grpo_recipes.worker.guards.alarm import refusal
from grpo_recipes.worker.survival.last_words import LastWords
from grpo_recipes.worker.survival.stacks import stacks_file

POLL_S = 0.5
PY_SPY_S = 30.0
STACKS_S = 5.0
# Of several processes that are killed together none shall say that it died alone.
TOGETHER_S = 1.0
# What a process printed goes through pipes, of another machine's job also through a network.
WORDS_S = 2.0
_PLACE = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


@dataclass(slots=True)
class Looked:
    """What is known of the process. words: what it prints; left_s: None while nothing is expected of it."""

    pid: int
    rank: int
    folder: Path
    words: LastWords
    left_s: float | None = None
    step: int = 0
    what: str = "a step"
    waited_s: float = 0.0
    is_asked: bool = False

    @property
    def stacks(self) -> Path:
        """The file for its stacks."""
        return self.folder / "stalled" / f"rank-{self.rank}.txt"


def look_on(looked: Looked, lines: int, dumps: int, *, is_one_of_several: bool) -> None:
    """Returns when the process has ended. lines, dumps: descriptors with its lines and with its stacks."""
    rest, last = b"", time.monotonic()
    while True:
        ready, _, _ = select.select([lines], [], [], POLL_S)
        now = time.monotonic()
        gap, last = min(now - last, 2 * POLL_S), now
        given = os.read(lines, 1 << 16) if ready else b""
        *whole, rest = (rest + given).split(b"\n")
        for line in whole:
            if line == b"bye":
                return
            _heard(looked, line.decode().split(" ", 3))
        if (ready and not given) or os.getppid() != looked.pid:
            if is_one_of_several and not looked.is_asked:
                _died(looked)
            return
        found = process(looked.pid)
        if looked.left_s is not None and found is not None and found.state not in "Tt":
            looked.waited_s += gap
            if looked.waited_s > looked.left_s:
                _end(looked, dumps)
                return


def _heard(looked: Looked, words: list[str]) -> None:
    if words[0] == "alive":
        looked.left_s = None if words[1] == "-" else float(words[1])
        looked.step, looked.what, looked.waited_s = int(words[2]), words[3], 0.0
    elif words[0] == "look":
        _add_py_spy(looked)
        print(flush=True)
    elif words[0] == "asked":
        looked.is_asked = True


def _end(looked: Looked, dumps: int) -> None:
    """Ends a process whose interpreter is held, with its stacks and the reason written down."""
    os.kill(looked.pid, signal.SIGUSR2)
    text = b""
    while select.select([dumps], [], [], STACKS_S if not text else POLL_S)[0] and (more := os.read(dumps, 1 << 16)):
        text += more
    with open(stacks_file(looked.stacks), "a", encoding="utf-8") as file:
        file.write(
            f"{looked.what} {looked.step} of this process, which holds the interpreter's lock\n{text.decode()}\n"
        )
    _add_py_spy(looked)
    # Threads are listed from the newest to the first one, which is the main thread.
    place = _PLACE.search(text.decode().rpartition("hread 0x")[2])
    where = f"{Path(place[1]).name}:{place[2]} in {place[3]}" if place else "an unknown place"
    alarm = no_progress.held(looked.waited_s, looked.what, f"stalled/{looked.stacks.name}", where)
    stopped = Refused(refusal(no_progress.NAME, no_progress.ID, looked.step, alarm))
    Record(looked.folder, looked.rank).end("stopped", EXIT_STOPPED, stopped)
    print(hide_secrets(f"error: {stopped}"), file=sys.stderr, flush=True)
    with suppress(ProcessLookupError):
        os.kill(looked.pid, signal.SIGKILL)


def _died(looked: Looked) -> None:
    time.sleep(TOGETHER_S)
    record = Record(looked.folder, looked.rank)
    lost = _said_why(looked)
    if lost is not None:
        _wait_for_others(record)
        if record.end("interrupted", EXIT_INTERRUPTED, lost, for_all=True):
            print(hide_secrets(f"error: {lost}"), file=sys.stderr, flush=True)
        return
    message = f"process {looked.rank} ended without a word: it was killed (out of memory?) or crashed in a library"
    if record.end("failed", EXIT_FAILED, message):
        print(f"error: {message}", file=sys.stderr, flush=True)


def _said_why(looked: Looked) -> Mistake | None:
    """How the process lost the others, if its watchdog printed that before it ended the process."""
    give_up = time.monotonic() + WORDS_S
    while True:
        lost = lost_by_watchdog(looked.words.text(looked.folder), looked.rank)
        if lost is not None or time.monotonic() > give_up:
            return lost
        time.sleep(POLL_S)


def _wait_for_others(record: Record) -> None:
    """Lets another process say first that it failed: then that is the reason."""
    give_up = time.monotonic() + OTHERS_SAY_WHY_S
    while record.read().get("status") == "running" and time.monotonic() < give_up:
        time.sleep(POLL_S)


def _add_py_spy(looked: Looked) -> None:
    """Adds what py-spy sees, with the frames of libraries where it can, and nothing where it is not installed."""
    program = shutil.which("py-spy")
    if program is None:
        return
    command = [program, "dump", "--pid", str(looked.pid)]
    for more in (["--native"], []):
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PY_SPY_S)
            said = done.stdout if done.returncode == 0 else f"py-spy: {done.stderr.strip()[-300:]}"
            if done.returncode == 0 or not more:
                with open(stacks_file(looked.stacks), "a", encoding="utf-8") as file:
                    file.write(f"{hide_secrets(said)}\n")
                return


def main() -> None:
    """Reads the command line: the package's place, the run folder, process id, rank, their number, a descriptor.

    Then what LastWords knows, for a process that ends before this program has begun.
    """
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)  # a terminal and a cluster send them to every process
    _, folder, pid, rank, world, dumps, log, own = sys.argv[1:]
    words = LastWords(int(log), None if own == "-" else int(own))
    looked = Looked(int(pid), int(rank), Path(folder), words)
    look_on(looked, sys.stdin.fileno(), int(dumps), is_one_of_several=int(world) > 1)
