"""The run is a Slurm job, which Slurm schedules and requeues after an interruption."""

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import open_to_append, read_bytes, status
from grpo_recipes.contract.files.folder_lock import holder
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan
from grpo_recipes.contract.run_record import amend_record, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.engines.slurm_job import (
    JOB_FILE,
    JobState,
    SubmittedJob,
    clean_environment,
    is_queued,
    job_sbatch,
    look_at,
    read_job,
    remember,
)
from grpo_recipes.launch.display import progress
from grpo_recipes.launch.local import LOG_FILE, refuse_strange_entries, show_end, text_after
from grpo_recipes.launch.progress import NORMAL, Progress, View
from grpo_recipes.launch.run_events import RunEvents
from grpo_recipes.launch.stop_signals import StopSignals, signals_noted

JOB_SCRIPT = "job.sbatch"
POLL_S = 10.0  # a controller serves many jobs
_SOON_S = 1.0
_LOOK_S = 0.5
SLURM_LOG_FILE = "slurm.log"
_ENDS_FILE = "job_ends.jsonl"
_SUBMIT_LOCK = ".submit.lock"


def launch_job(
    folder: str,
    *,
    resume: bool = False,
    echo: TextIO = sys.stderr,
    view: View = NORMAL,
    poll_s: float = POLL_S,
    prepare: Callable[[], Sequence[str]] = list,
) -> int:
    """Submits a run folder, follows its job, and returns the exit code.

    The first SIGINT, SIGTERM or SIGHUP stops following, not the job; the exit code is that of an interrupted run.
    poll_s: seconds between two queries of Slurm. prepare: called while nobody else can submit the folder or train in
    it; returns lines to print. Call from the main thread. Raises Refusal if there is no sbatch, sbatch refuses the job,
    the folder is being submitted, or a job of it is queued.
    """
    folder = os.path.abspath(folder)
    refuse_strange_entries(folder)

    def submit(shown: Progress) -> SubmittedJob:
        with _submitting(folder):
            for line in prepare():
                shown.say(line)
            return _submit(folder, shown, ["--resume"] if resume else [])

    return _to_its_end(folder, submit, echo, view, poll_s)


def follow_job(folder: str, *, echo: TextIO = sys.stderr, view: View = NORMAL, poll_s: float = POLL_S) -> int:
    """Follows the job of a run folder as launch_job does, but never submits one."""
    folder = os.path.abspath(folder)

    def find_job(shown: Progress) -> SubmittedJob:
        job = read_job(folder)
        if job is None:
            raise Refusal.of(f"{folder}: its job is gone from {JOB_FILE}", fix="--resume once more")
        shown.note(f"following job {job.id} in {folder}; the whole output is in {LOG_FILE} there")
        return job

    return _to_its_end(folder, find_job, echo, view, poll_s)


def _to_its_end(folder: str, find: Callable[[Progress], SubmittedJob], echo: TextIO, view: View, poll_s: float) -> int:
    with progress(echo, view) as shown, signals_noted() as asked:
        seen_log = status(Path(folder), LOG_FILE)
        log_start = 0 if seen_log is None else seen_log.st_size
        began = time.time()
        job = find(shown)
        stopping = f"to save and stop it: {' '.join(job.words('scancel', '--batch', '--signal=TERM', job.id))}"
        shown.note(stopping)
        state = _follow(folder, job, began, shown, asked, poll_s)
        if state is None:
            why = asked.names[0] if asked.names else signal.SIGHUP.name
            shown.say(f"{why}: job {job.id} continues without being followed")
            shown.say(f"to follow it again: grpo-run {shlex.quote(folder)} --resume\n{stopping}")
            return EXIT_INTERRUPTED
        code = _conclude(folder, job, state)
        if code not in (EXIT_DONE, EXIT_INTERRUPTED):
            _show_end(folder, log_start, shown)
    return code


@contextlib.contextmanager
def _submitting(folder: str) -> Iterator[None]:
    """Prevents a second submission of the folder while the block runs. Raises Refusal as launch_job does."""
    if shutil.which("sbatch") is None:
        raise Refusal.of(
            f"{folder}: sbatch is not installed here",
            because="launch.engine is slurm, and its commands are not in PATH",
            fix="run this on a login node of the cluster; --dry-run only writes job.sbatch",
        )
    with open(open_to_append(Path(folder), _SUBMIT_LOCK), "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two submissions would not see each other's job
        except BlockingIOError:
            raise Refusal.of(
                f"{folder}: another process is submitting it",
                because=f"another grpo-run holds {_SUBMIT_LOCK}",
                fix="--resume in a moment follows that job",
            ) from None
        job = read_job(folder)
        if job is not None and is_queued(folder):
            raise Refusal.of(
                f"{folder}: its job {job.id} is still in the queue",
                because="two jobs cannot train in one folder",
                fix=f"--resume follows it, scancel {job.id} ends it",
            )
        if (other := holder(Path(folder))) is not None:
            raise Refusal(other.refusal())
        yield


def _submit(folder: str, shown: Progress, arguments: list[str]) -> SubmittedJob:
    done = subprocess.run(
        ["sbatch", "--parsable", "--export=ALL", JOB_SCRIPT, *arguments],
        cwd=folder,
        env=clean_environment(PYTHON=sys.executable),
        capture_output=True,
        text=True,
        start_new_session=True,  # a Ctrl-C must not leave an unrecorded job
    )
    if done.returncode != 0:
        words = " ".join(redact(done.stderr).replace("sbatch: error: ", "").split())
        raise Refusal.of(
            f"{folder}: Slurm refused the job",
            because=words,
            fix="change the recipe's slurm section; sinfo lists the partitions",
        )
    number_, _, cluster = done.stdout.strip().splitlines()[-1].partition(";")
    job = SubmittedJob(number_, cluster or None)
    shown.note(f"submitted job {job.id} from {folder}; the whole output is in {LOG_FILE} there")
    remember(folder, job)
    return job


def _follow(
    folder: str, job: SubmittedJob, began: float, shown: Progress, signals: StopSignals, poll_s: float
) -> JobState | None:
    """Shows the job's progress until it ends, and returns its final state; None if following was stopped."""
    events = RunEvents(folder, began, shown.view)
    last, next_question, ends = "", 0.0, _ends_of(folder, job)
    while not signals.names and not signals.terminal_is_gone:
        if (now := time.monotonic()) >= next_question:
            state = look_at(job)
            if state is not None and state.has_ended:
                return state
            words = _words(job, state)
            if words not in ("", last):
                shown.note(words)
                last = words
            next_question = now + (poll_s if words else _SOON_S)
        for event in events.new():
            shown.show(event)
        if ends != (ends := _ends_of(folder, job)):
            next_question = now + _SOON_S  # Slurm will have news shortly
        time.sleep(_LOOK_S)
    return None


def _words(job: SubmittedJob, state: JobState | None) -> str:
    """The state of the job on one line; "" for transient states."""
    if state is None:
        return "Slurm does not answer; the job continues"
    start = f", start {state.starts}" if state.starts > 1 else ""
    if state.state == "RUNNING":
        return f"job {job.id} runs on {state.nodes}{start}"
    if state.state == "PENDING" and state.reason == "BeginTime" and state.starts > 1:
        return f"job {job.id} is back in the queue{start}; Slurm waits two minutes before it starts a job again"
    if state.state == "PENDING":
        reason = "" if state.reason in ("", "None") else f": {state.reason}"
        return f"job {job.id} waits in the queue{start}{reason}"
    return "" if state.state in ("COMPLETING", "CONFIGURING") else f"job {job.id}{start}: {state.state.lower()}"


def _conclude(folder: str, job: SubmittedJob, state: JobState) -> int:
    """The exit code of the run, after completing run.json if nobody could write how it ended."""
    code = next((end for end in _ends_of(folder, job)[-1:] if isinstance(end, int)), None)
    if code is None and state.state != "CANCELLED" and state.exit_code:
        code = state.exit_code
    record = read_record(folder)
    is_told = record is not None and record.status != "running" and record.exit_code is not None
    if code is None and is_told and record is not None:
        code = record.exit_code
    if code is None:
        code = EXIT_INTERRUPTED if state.state in ("CANCELLED", "TIMEOUT", "PREEMPTED") else EXIT_FAILED
    if not is_told:
        how = f"Slurm says {state.state.lower()}" if state.state else "Slurm no longer knows it"
        status = "interrupted" if code == EXIT_INTERRUPTED else "failed"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        message = f"job {job.id} ended without a message from the worker: {how}"
        amend_record(folder, {"status": status, "exit_code": code, "message": message, "findings": [], "ended": now})
    return code


def _ends_of(folder: str, job: SubmittedJob) -> list[object]:
    """What the job's script decided at the end of each start: "requeue" or an exit code."""
    try:
        lines = map(parse_json, read_bytes(Path(folder), _ENDS_FILE).splitlines())
        return [line["next"] for line in lines if isinstance(line, dict) and line["job"] == job.id]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _show_end(folder: str, log_start: int, shown: Progress) -> None:
    """The last lines of the job's output, or else of Slurm's messages about it."""
    texts = {LOG_FILE: text_after(os.path.join(folder, LOG_FILE), log_start)}
    texts[SLURM_LOG_FILE] = text_after(os.path.join(folder, SLURM_LOG_FILE), 0)
    name = next((name for name in texts if texts[name].strip()), LOG_FILE)
    show_end(texts[name], os.path.join(folder, name), shown)


_MOST_FOLLOWED = 32
"""Jobs; following one takes 60 MB of memory and queries the controller every ten seconds."""


class SlurmEngine(Engine):
    """Submits a job and follows it."""

    def files(self, plan: Plan) -> dict[str, str]:
        """The script of the job. Raises Refusal for an unsupported request."""
        try:
            return {JOB_SCRIPT: job_sbatch(plan)}
        except NotAPlan as problem:
            raise Refusal.of("the plan's Slurm section cannot come from a recipe", because=str(problem)) from None

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Submits the job and follows it to its end."""
        return launch_job(folder, resume=resume, echo=echo, view=view, prepare=prepare)

    def follow(self, folder: str, *, echo: TextIO, view: View) -> int:
        """Follows the job that was submitted for the folder."""
        return follow_job(folder, echo=echo, view=view)

    def look(self, plan: Plan, count: int, limit_s: int, echo: TextIO) -> list[Finding]:
        """Lets nodes examine themselves, allocated by Slurm as for the job."""
        from grpo_recipes.engines.slurm_nodes import ask_nodes, nodes_findings  # only for preflight

        machines = "machine" if count == 1 else "machines"
        print(f"asking Slurm for {count} {machines}, waiting at most {limit_s} s in the queue; Ctrl-C stops", file=echo)
        nodes = ask_nodes(plan, count, limit_s)
        print(f"checked {', '.join(node.name for node in nodes)}", file=echo)
        return nodes_findings(plan, nodes)

    def is_active(self, folder: str) -> bool:
        """Whether the job is queued or running, or Slurm cannot say."""
        return is_queued(folder)

    def shares(self, plan: Plan) -> list[dict[str, str]]:
        """An environment for each job that is followed at once; Slurm distributes the machines."""
        return [{}] * _MOST_FOLLOWED


ENGINE = SlurmEngine()
