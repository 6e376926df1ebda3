"""`grpo-run watch`: shows the progress of a run that another process trains."""

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import a_run, choose_view, view_options
from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.files.folder_lock import holder
from grpo_recipes.contract.integrity.run_folder import RECORD_FILE
from grpo_recipes.contract.run_record import UNKNOWN, RunRecord, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.progress import Progress
from grpo_recipes.launch.run_events import RunEvents
from grpo_recipes.report.runs.run_row import instant, is_gone


@click.command()
@click.argument("folder", metavar="RUNDIR", shell_complete=files, callback=a_run)
@view_options
@click.option("--json", "as_json", is_flag=True, help="Print run.json after the run ends.")
def watch(folder: str, quiet: bool, verbose: bool, samples: int, as_json: bool) -> int:
    """Show a run that trains in another shell, in a queue or on another machine, until it ends.

    Writes nothing, and Ctrl-C does not stop the run. Exits like the run: 0 completed, 1 it failed or its process is
    gone, 3 a check or guard stopped it, 75 it was interrupted, or Ctrl-C; 2 it was never started.

    \b
    grpo-run watch runs/addition-20260101-120000 --samples 2
    """
    from grpo_recipes.cli.launching import conclude_run
    from grpo_recipes.engines.base import engine_of
    from grpo_recipes.launch.display import progress
    from grpo_recipes.launch.local import refuse_strange_entries
    from grpo_recipes.lock.read_lock import read_lock

    view, lock = choose_view(quiet, verbose, samples), read_lock(folder)
    refuse_strange_entries(lock.folder)
    engine = engine_of(lock.plan)
    try:
        with progress(sys.stderr, view, began(lock.record)) as shown:
            code = follow_to_the_end(lock.folder, lambda: engine.is_active(lock.folder), shown)
    except KeyboardInterrupt:
        click.echo(redact(f"stopped watching; to watch it again: grpo-run watch {shlex.quote(folder)}"), err=True)
        return EXIT_INTERRUPTED
    return conclude_run(lock.plan, lock.folder, code, as_json=as_json)


_EVENTS_S = 0.5
_STATE_S = 1.0
_ENGINE_S = 10.0  # a controller serves many jobs


def follow_to_the_end(folder: str, is_active: Callable[[], bool], shown: Progress) -> int:
    """Shows the progress of a run until it ends, and returns its exit code; 1 if its process is gone.

    is_active: whether this machine's engine reports it as queued or running. Raises Refusal for a run that was never
    started.
    """
    events: RunEvents | None = None
    active, next_state, next_question, is_waiting = False, 0.0, 0.0, False
    while True:
        record, now = read_record(folder), time.monotonic()
        if events is None and record is not None:
            events = RunEvents(folder, began(record) or 0.0, shown.view)
        if now >= next_state:
            next_state = now + _STATE_S
            goes_on = holder(Path(folder)) is not None or _is_elsewhere(folder, record)
            if not goes_on and now >= next_question:
                next_question, active = now + _ENGINE_S, is_active()
            if not goes_on and not active:
                return _report_end(folder, events, shown)
            if record is None and not is_waiting:
                shown.note("it has not started yet")
                is_waiting = True
        for event in events.new() if events is not None else ():
            shown.show(event)
        time.sleep(_EVENTS_S)


def began(record: RunRecord | None) -> float | None:
    """The start of a run's last launch, a Unix time; None if it was never started."""
    return None if record is None else instant(record.started)


def _is_elsewhere(folder: str, record: RunRecord | None) -> bool:
    """Whether the run may be on a machine whose lock is not visible here."""
    is_of_here = record is None or record.is_queued_work or is_gone(Path(folder))
    return record is not None and record.status == "running" and not is_of_here


def _report_end(folder: str, events: RunEvents | None, shown: Progress) -> int:
    record = read_record(folder)
    if record is None or record.status == UNKNOWN:
        _refuse_lost_record(folder)
    if record is None:
        raise Refusal.of(
            f"{folder}: nothing to watch",
            because="the run was never started",
            fix=f"grpo-run {shlex.quote(folder)} trains it",
        )
    for event in events.new() if events is not None else ():
        shown.show(event)
    if record.status != "running" and record.exit_code is not None:
        return record.exit_code
    shown.say("its process is gone, but its run.json says running")
    return EXIT_FAILED


def _refuse_lost_record(folder: str) -> None:
    """Raises Refusal if the record of a started run is missing or unreadable."""
    from grpo_recipes.contract.integrity.used_run import find_changed_files, how_to_mend  # a watched run has one

    for fault in find_changed_files(Path(folder)):
        if fault.name == RECORD_FILE:
            fix = how_to_mend(fault)
            raise Refusal.of(f"{folder}: {fault.words}", because=f"it {fault.because}", fix=fix)
