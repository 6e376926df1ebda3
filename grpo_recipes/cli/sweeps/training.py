"""Trains the unfinished runs of a sweep, each with its own `grpo-run RUNDIR --resume`.

That starts a new run, resumes an interrupted one, follows a queued or running job, and refuses a run that became a
different experiment. With separate processes, several can train at once, and a crash affects only one.
"""

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import click

from grpo_recipes.cli.main import grpo_run
from grpo_recipes.cli.resolving import findings_answer
from grpo_recipes.cli.sweeps.planning import PlannedSweep, shares_to_start
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.files.folder_lock import LAUNCHING, Busy, hold_lock, holder
from grpo_recipes.contract.host.processes import die_with_parent
from grpo_recipes.contract.metrics import evaluation_text, mapping, of_set
from grpo_recipes.contract.run_record import RunRecord, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import engine_of
from grpo_recipes.launch.stop_signals import StopSignals, never_stopped_by_output, signals_noted
from grpo_recipes.launch.summary import status_line
from grpo_recipes.lock.read_lock import read_lock
from grpo_recipes.sweep.comparison import compare_settings
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun, is_sweep, read_sweep
from grpo_recipes.sweep.table import table_json, table_text
from grpo_recipes.trust.code import code_parts
from grpo_recipes.trust.folders import checkpoint_parts

# A guard that stopped a run would stop it again, so it counts as finished.
KEPT = ("completed", "stopped")
_POLL_S = 0.2
_LEAVE_S = 30.0
"""Seconds after which the leftovers of a killed sweep have ended."""
_START = "import sys; sys.path.append(sys.argv.pop(1)); from grpo_recipes.cli.main import main; main()"
_PACKAGE = str(Path(__file__).parents[3])


class Trainee(NamedTuple):
    """A run in progress. share: its index among the parallel runs. talk: copies its output."""

    run: SweepRun
    share: int
    process: "subprocess.Popen[bytes]"
    talk: threading.Thread | None


def train_sweep(folder: str, sweep: Sweep, allowed: Sequence[str]) -> int:
    """Trains the unfinished runs of a sweep, and returns the exit code of the whole sweep.

    A failing run does not stop the others. The first SIGINT or SIGTERM lets the runs save and stop, and starts no more;
    the second kills them. Raises Refusal if another process is running the sweep.
    """
    never_stopped_by_output()
    path = Path(folder)
    with _alone(path):
        open_runs = [run for run in sweep.runs if not _is_kept(path / run.name)]
        done = len(sweep.runs) - len(open_runs)
        _say(f"sweep of {len(sweep.runs)} runs in {folder}" + (f", {done} of them finished earlier" if done else ""))
        if open_runs:
            with signals_noted() as asked:
                _train(path, open_runs, _shares(path, open_runs), allowed, asked, done + 1, len(sweep.runs))
            if asked.names:
                return EXIT_INTERRUPTED
        return _exit_code([read_record(str(path / run.name)) for run in sweep.runs])


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    try:
        with hold_lock(folder, LAUNCHING):
            yield
    except Busy as busy:
        finding = busy.findings[0]._replace(message=f"{folder}: another process is running the sweep")
        raise Refusal(finding) from None


def _is_kept(folder: Path) -> bool:
    record = read_record(str(folder))
    return record is not None and record.status in KEPT


def _exit_code(records: Sequence[RunRecord | None]) -> int:
    statuses = {None if record is None else record.status for record in records}
    if statuses == {"completed"}:
        return EXIT_DONE
    return EXIT_FAILED if statuses <= {"completed", "stopped", "failed", None} else EXIT_INTERRUPTED


def _shares(folder: Path, runs: Sequence[SweepRun]) -> list[Mapping[str, str]]:
    """The environment of the parallel runs. Raises Refusal if nothing can be started from here."""
    return shares_to_start([read_lock(str(folder / run.name)).plan for run in runs])


def _train(
    folder: Path,
    runs: Sequence[SweepRun],
    shares: Sequence[Mapping[str, str]],
    allowed: Sequence[str],
    signals: StopSignals,
    first: int,
    of: int,
) -> None:
    """Trains runs in order, as many at once as there are shares. first, of: numbers for the progress lines."""
    waiting, going, count = list(runs), list[Trainee](), itertools.count(first)
    several = min(len(shares), len(runs)) > 1
    try:
        while going or (waiting and not signals.names):
            free = [index for index in range(len(shares)) if index not in {job.share for job in going}]
            for index in free[: 0 if signals.names else len(waiting)]:
                run = waiting.pop(0)
                _wait_for_the_last_one(folder / run.name, signals)
                going.append(_start_trainee(folder, run, index, shares[index], allowed, is_one_of_several=several))
            time.sleep(_POLL_S)
            means = "the runs save and stop, and no more start; send it again to kill them"
            signals.pass_on([job.process for job in going], _say, means)
            for job in [job for job in going if job.process.poll() is not None]:
                going.remove(job)
                if job.talk is not None:
                    job.talk.join()
                _say(f"[{next(count)}/{of}] {job.run.name}: {_end_text(folder / job.run.name, job.process.returncode)}")
    finally:
        for job in going:
            job.process.kill()


def _start_trainee(
    folder: Path,
    run: SweepRun,
    share: int,
    environment: Mapping[str, str],
    allowed: Sequence[str],
    *,
    is_one_of_several: bool,
) -> Trainee:
    """Starts a run. If there are several, each output line has the run's name; a single run gets the terminal."""
    path = str(folder / run.name)
    devices = "".join(f", {name}={value}" for name, value in environment.items())
    _say(f"{run.name} starts{devices}")
    words = [sys.executable, "-P", "-c", _START, _PACKAGE, "run", path, "--resume"]
    process = subprocess.Popen(
        [*words, *(part for digest in _of_run(path, allowed) for part in ("--allow-code", digest))],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if is_one_of_several else None,
        start_new_session=True,  # the sweep receives a Ctrl-C and passes it on once
        preexec_fn=die_with_parent,
    )
    talk = None
    if process.stderr is not None:
        talk = threading.Thread(target=_copy, args=(process.stderr, run.name), daemon=True)
        talk.start()
    return Trainee(run, share, process, talk)


def _copy(talk: IO[bytes], name: str) -> None:
    for line in talk:
        _say(f"{name}: {line.decode(errors='replace').rstrip()}")


def _of_run(folder: str, allowed: Sequence[str]) -> list[str]:
    """The digests of --allow-code that belong to this run, since a run refuses others."""
    given = [text.strip().lower() for text in allowed]
    parts = [*code_parts(read_lock(folder).plan), *checkpoint_parts(folder)] if given else []
    return [text for text in given if any(part.sha256.startswith(text) for part in parts)]


def _wait_for_the_last_one(folder: Path, signals: StopSignals) -> None:
    """Waits about a second, until the processes of a killed sweep have left a run."""
    engine, path = engine_of(read_lock(str(folder)).plan), str(folder)
    give_up = time.monotonic() + _LEAVE_S
    while time.monotonic() < give_up and not signals.names and holder(folder) and not engine.is_active(path):
        time.sleep(_POLL_S)


def _end_text(folder: Path, code: int) -> str:
    """The status of a run after its process ended, on one line."""
    record = read_record(str(folder))
    if record is None or record.status == "running":
        return f"not trained, exit {code}"
    after = mapping(record.evaluation, "after")
    held_out = f", held out{of_set(after)} {evaluation_text(after)}" if after else ""
    message = "" if record.status == "completed" or not record.message else f": {record.message.splitlines()[0]}"
    return f"{status_line(record)}{held_out}{message}"


def _say(line: str) -> None:
    click.echo(redact(line), err=True)


def print_findings(recipe: str, planned: PlannedSweep, *, as_json: bool, is_answer: bool) -> None:
    """Prints the findings of all runs, on stderr unless they are the requested output."""
    runs = "nothing was started" if planned.sweep is None else f"{len(planned.sweep.runs)} runs"
    text = findings_answer(recipe, planned.findings, as_json=as_json, then=f", {runs}")
    click.echo(redact(text), err=not (is_answer or as_json))


def answer(folder: str, *, as_json: bool) -> None:
    """Prints the current table of a sweep."""
    comparison = compare_settings(folder, read_sweep(folder))
    click.echo(redact(table_json(comparison) + "\n" if as_json else table_text(comparison)), nl=False)


def go_on(folder: str, allowed: tuple[str, ...], *, as_json: bool) -> int:
    """Trains the unfinished runs of a sweep, prints its table, and returns the exit code.

    Raises Refusal if it is not a sweep, or if another process is running it.
    """

    if not is_sweep(folder):
        raise Refusal.of(
            f"{folder} is not a sweep", because="it has no sweep.json", fix="grpo-run sweep RECIPE starts one"
        )
    code = train_sweep(folder, read_sweep(folder), allowed)
    write_report(folder)
    answer(folder, as_json=as_json)
    if code == EXIT_INTERRUPTED:
        click.echo(redact(f"\ngrpo-run sweep {shlex.quote(folder)} continues it"), err=True)
    return code


def write_report(folder: str) -> None:
    """Runs `grpo-run report` to write report.html about the started runs.

    Its output goes to stderr, since stdout has the table; a failure does not change the exit code.
    """
    if all(read_record(os.path.join(folder, run.name)) is None for run in read_sweep(folder).runs):
        return
    try:
        with contextlib.redirect_stdout(sys.stderr):
            words = ["report", folder, "-o", os.path.join(folder, "report.html")]
            grpo_run.main(words, prog_name="grpo-run", standalone_mode=False)
    except Refusal as refusal:
        click.echo(redact(f"no report: {refusal}"), err=True)
