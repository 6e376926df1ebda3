"""Trains a run folder on this machine and returns how it ended."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.files.folder_files import open_to_append, open_to_read
from grpo_recipes.contract.files.folder_lock import LAUNCHING, Busy, FolderLock, hold_lock, holder
from grpo_recipes.contract.files.regular_file import NotRegular
from grpo_recipes.contract.files.run_entries import refuse_foreign_entries, strange_entry
from grpo_recipes.contract.findings.finding import as_record, mistake
from grpo_recipes.contract.findings.lost_peer import WrongSetUp, find_watchdog_end
from grpo_recipes.contract.host import supervisor
from grpo_recipes.contract.host.child_environment import absolute_places
from grpo_recipes.contract.host.child_environment import changes_note as told_of_places
from grpo_recipes.contract.host.standard_streams import steady, take_output_problem
from grpo_recipes.contract.run_record import RECORD_FILE, RunRecord, amend_record, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.contract.secrets.redacted_file import RedactedFile
from grpo_recipes.launch.display import progress
from grpo_recipes.launch.progress import NORMAL, Progress, View
from grpo_recipes.launch.run_events import RunEvents, record_version
from grpo_recipes.launch.stop_signals import StopSignals, never_stopped_by_output, signals_noted
from grpo_recipes.launch.train_log import open_redacted_log

LOG_FILE = "train.log"
_LAUNCH_ID = "GRPO_RUN_LAUNCH"
_POLL_S = 0.1
_READER_S = 1.0
_SHOWN_LINES = 30
# torch.distributed.elastic names the rank that failed first, before it stops the others.
_RANK_FAILURE = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")


def launch(
    folder: str,
    *,
    resume: bool = False,
    echo: TextIO = sys.stderr,
    view: View = NORMAL,
    prepare: Callable[[], Sequence[str]] = list,
) -> int:
    """Trains a run folder to its end, shows its progress on `echo`, and returns the exit code.

    The first SIGINT, SIGTERM or SIGUSR1 asks the trainers to save and stop, the second kills them. If the terminal,
    pipe or disk behind `echo` is gone, full or stopped, the run continues and train.log says so. All output goes to
    train.log; run.json records how the run ended, even if the worker could not write it.
    prepare: called after the folder is locked and before anything is started; returns lines to print. Call from the
    main thread. Raises Refusal if the folder is already being trained, has no launch.sh or is not writable, and, with
    the exit code of the run, if it was removed or run.json cannot record how the run ended.
    """
    folder = os.path.abspath(folder)
    if not os.path.isfile(os.path.join(folder, "launch.sh")):
        raise Refusal.of(
            f"{folder}: not a run folder", because="it has no launch.sh", fix="grpo-run RECIPE --dry-run writes one"
        )
    log = os.path.join(folder, LOG_FILE)
    with lock_for_launch(folder) as lock, _progress(echo, view) as (shown, screen):
        for line in prepare():
            shown.say(line)
        before = record_version(folder)
        log_start = os.path.getsize(log)
        shown.note(f"training in {folder}; the whole output is in {LOG_FILE} there")
        code, asked, copied = _run(folder, log, shown, screen, ["--resume"] if resume else [])
        output = text_after(log, log_start) + copied.last_lost.decode(errors="replace")
        if copied.problem is not None:
            shown.say(f"{LOG_FILE} lacks {copied.lost} bytes of the output: {copied.problem.strerror}")
        if code != EXIT_DONE and lock.is_in_place() and (other := holder(Path(folder))) is not None:
            raise Refusal(other.refusal())  # it came before this launch's worker, and run.json is its own
        exit_code = EXIT_FAILED
        try:
            _stop_if_gone(folder, lock)
            record = read_record(folder) if record_version(folder) != before else None
            exit_code = _conclude(folder, record, code, asked, output)
        finally:
            if exit_code == EXIT_FAILED:
                show_end(output, log, shown)
    return exit_code


def refuse_strange_entries(folder: str) -> None:
    """Raises Refusal for a link, a pipe or a device instead of one of the run's files or folders."""
    try:
        refuse_foreign_entries(Path(folder))
    except NotRegular as problem:
        raise Refusal(strange_entry(problem)) from None


def is_running(folder: str) -> bool:
    """Whether a process trains this folder now; one that died leaves run.json at "running"."""
    return holder(Path(folder)) is not None


@contextlib.contextmanager
def lock_for_launch(folder: str) -> Iterator[FolderLock]:
    """Locks the folder for one training, whose worker locks it too. Raises Refusal if it is in use."""
    path = Path(folder)
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(hold_lock(path, LAUNCHING))
            refuse_foreign_entries(path)
            os.close(open_to_append(path, LOG_FILE))  # start nothing whose output could not be written
        except Busy as busy:
            raise Refusal(*busy.findings) from None
        except NotRegular as problem:  # also for the lock
            raise Refusal(strange_entry(problem)) from None
        except OSError as problem:
            raise Refusal.of(
                f"{folder}: the run folder cannot be written",
                because=str(problem.strerror or problem),
                fix="make it writable for this user, with room for checkpoints, or train a copy elsewhere",
            ) from None
        other = holder(path)
        if other is not None:
            raise Refusal(other.refusal())
        yield lock


@contextlib.contextmanager
def _progress(echo: TextIO, view: View) -> Iterator[tuple[Progress, TextIO]]:
    """The progress display for `echo`, and the stream that it writes to, which never fails or blocks."""
    never_stopped_by_output()
    screen = echo
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor
        screen = steady(echo.fileno(), echo, _READER_S)
    with progress(screen, view) as shown:
        yield shown, screen


def _run(
    folder: str, log: str, shown: Progress, screen: TextIO, arguments: list[str]
) -> tuple[int, list[str], RedactedFile]:
    """Runs the supervisor to its end; returns its exit code, the signals passed on, and the log file."""
    launch_id = uuid.uuid4().hex
    events = RunEvents(
        folder, time.time(), shown.view
    )  # of a resumed run, whose earlier attempts are in the same files
    inherited, dropped = absolute_places(os.environ)
    if dropped:
        shown.say(told_of_places(dropped))
    # Handlers come before the start: a Ctrl-C in between would leave a training without its supervisor.
    with signals_noted() as asked, open_redacted_log(log) as (output, copied):
        child = supervisor.start_supervisor(folder, output, {**inherited, _LAUNCH_ID: launch_id}, *arguments)
        try:
            is_told = False
            while True:
                code = child.poll()
                asked.pass_on([child], shown.say, "saving and stopping; a second signal kills the run")
                is_told = is_told or _has_logged_lost_display(asked, screen, output)
                for event in events.new():
                    shown.show(event)
                if code is not None:
                    return code, asked.names, copied
                time.sleep(_POLL_S)
        finally:
            if child.returncode != 0:
                _end(child, launch_id)


def _has_logged_lost_display(signals: StopSignals, screen: TextIO, log: int) -> bool:
    """Whether train.log says that nobody sees the output; writes that as soon as it is known."""
    problem = take_output_problem(screen)
    if problem is None and not signals.terminal_is_gone:
        return False
    why = "the terminal is gone" if problem is None else f"the output cannot be shown ({problem.strerror})"
    line = f"grpo-run: {why}; the run continues, and SIGINT or SIGTERM still saves and stops it\n"
    os.write(log, line.encode())
    return True


def _end(child: subprocess.Popen[bytes], launch_id: str) -> None:
    """Kills what a launch left behind: its supervisor, and the processes of a killed supervisor."""
    if child.poll() is None:
        child.kill()
        child.wait()
    marker = f"{_LAUNCH_ID}={launch_id}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marker in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


def _stop_if_gone(folder: str, lock: FolderLock) -> None:
    if not lock.is_in_place():
        raise Refusal(
            mistake(
                f"{folder}: the run folder is gone or was replaced",
                because="it was removed, renamed or replaced during the run",
                fix="start the run again; a renamed folder can be resumed where it is now",
            ),
            exit_code=EXIT_FAILED,
        )


def _conclude(folder: str, record: RunRecord | None, code: int, asked: list[str], log: str) -> int:
    """The exit code of the run, after completing run.json if the worker could not write its end.

    Raises Refusal, with that exit code, if run.json cannot be written.
    """
    rank_failure, lost = _RANK_FAILURE.search(log), None
    if rank_failure is not None and int(rank_failure[1]) == -signal.SIGABRT:
        lost = find_watchdog_end(log, int(rank_failure[2]))
    if record is not None and record.status != "running" and record.exit_code is not None:
        # When one rank crashes, torch stops the others with SIGTERM, and they report an interruption.
        is_own = lost is None or isinstance(lost, WrongSetUp)
        is_crash = rank_failure is not None and is_own and int(rank_failure[1]) not in (0, EXIT_INTERRUPTED)
        if record.exit_code != EXIT_INTERRUPTED or asked or not is_crash:
            return record.exit_code
    status, exit_code, findings = "interrupted", EXIT_INTERRUPTED, []
    if asked:
        message = f"ended by {' and '.join(asked)} before the worker had saved"
    elif lost is not None:
        message, findings = str(lost), [as_record(finding) for finding in lost.findings]
        if isinstance(lost, WrongSetUp):
            status, exit_code = "failed", EXIT_FAILED
    else:
        status, exit_code = "failed", EXIT_FAILED
        how = f"rank {rank_failure[2]} {_death(int(rank_failure[1]))}" if rank_failure else f"it {_death(code)}"
        message = f"the worker ended without a message: {how}"
    ending = {"status": status, "exit_code": exit_code, "message": message, "findings": findings}
    try:
        amend_record(folder, {**ending, "ended": datetime.now(UTC).isoformat(timespec="seconds")})
    except OSError as problem:
        raise Refusal(
            mistake(
                f"{folder}: {message}",
                because=f"{RECORD_FILE} cannot be written, and still says running: {problem.strerror}",
                fix="when the folder can be written again, --resume continues the run",
            ),
            exit_code=exit_code,
        ) from None
    return exit_code


def _death(code: int) -> str:
    """An exit code in words: negative or above 128 is a signal."""
    death_signal = -code if code < 0 else code - 128 if code > 128 else 0
    if death_signal in {item.value for item in signal.Signals}:
        name = signal.Signals(death_signal).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"
    return f"ended with exit code {code}"


def text_after(path: str, offset: int) -> str:
    """A file's text from a byte on, at most its last megabyte; empty if it cannot be read."""
    try:
        with open_to_read(Path(path).parent, Path(path).name) as file:
            file.seek(max(offset, file.seek(0, os.SEEK_END) - (1 << 20)))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def show_end(output: str, log: str, shown: Progress) -> None:
    """Shows the last lines of a log's new output."""
    lines = redact(output).splitlines()[-_SHOWN_LINES:]
    shown.say(f"the last {len(lines)} lines of {log}:" if lines else f"{log} is empty")
    for line in lines:
        shown.say(f"  {line}")
