"""Decides what follows when one start of a job has ended: requeue it, or end it with an exit code.

    python -P worker/part.py survival.job_end FOLDER before
    python -P worker/part.py survival.job_end FOLDER after --job ID --before WORD --code N --max-requeues N [--told] ...

"before" prints a word that identifies the run.json before this start. "after" prints "requeue" or the exit code; the
reason goes to stderr, run.json and job_ends.jsonl.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOT_STARTED
from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import open_to_append, read_bytes, status
from grpo_recipes.contract.integrity.checkpoints import step_of
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.checkpoints.checkpoint import latest_checkpoint

ENDS_FILE = "job_ends.jsonl"
REQUEUE = "requeue"
# Consecutive starts that may end without a new step: a single one may be a machine's fault.
_FRUITLESS_STARTS = 2
# srun's code for a lost machine. If a task fails, srun kills the others and returns 143.
_KILLED = 137


@dataclass(frozen=True, slots=True)
class Ended:
    """One start of a job that has ended.

    code: its launchers' exit code, as in a shell. record: run.json as this start left it, None if it wrote none. step,
    step_before: of the newest complete checkpoint. told: it was asked to stop permanently. preempted: Slurm needs its
    machines for another job, and requeues it. server_ended: its vLLM server's step ended before the training. requeues:
    how often it has requeued itself. fruitless: how many consecutive starts before this one gained no step. is_another:
    run.json belongs to a different run, which trains in the folder and locked this job out.
    """

    code: int
    record: Mapping[str, Any] | None
    step: int
    step_before: int
    max_requeues: int
    told: bool = False
    preempted: bool = False
    server_ended: bool = False
    requeues: int = 0
    fruitless: int = 0
    is_another: bool = False


@dataclass(frozen=True, slots=True)
class Next:
    """The decision about a job. exit_code: None to requeue. because: one line."""

    exit_code: int | None
    because: str


def decide(ended: Ended) -> Next:
    """Returns whether to requeue, or the exit code to end with."""
    if ended.is_another:
        return Next(EXIT_NOT_STARTED, "another run is training in this folder, and continues")
    status = None if ended.record is None else ended.record.get("status")
    code = None if ended.record is None else ended.record.get("exit_code")
    if status == "completed":
        return Next(EXIT_DONE, "the run is completed")
    if status in ("failed", "stopped") and isinstance(code, int) and not ended.server_ended:
        return Next(code, f"the run {status if status == 'failed' else 'was stopped'}, so it is not requeued")
    if ended.preempted:
        return Next(None, "another job needs the machines")
    if ended.told:
        return Next(EXIT_INTERRUPTED, "it was asked to stop")
    if ended.record is None and ended.code != _KILLED and not ended.server_ended:
        return Next(EXIT_FAILED, f"no trainer started, and the launchers ended with exit code {ended.code}")
    return _again(ended, _cause(ended, status))


def _cause(ended: Ended, status: object) -> str:
    if ended.server_ended:
        return "the vLLM server ended before the training"
    if status == "interrupted":
        return "the run was interrupted"
    return f"the trainers ended without a reason, srun with exit code {ended.code}"


def _again(ended: Ended, cause: str) -> Next:
    """Returns a requeue, unless earlier starts gained no step or the limit is reached."""
    if ended.step <= ended.step_before and ended.fruitless + 1 >= _FRUITLESS_STARTS:
        return Next(EXIT_FAILED, f"{cause}; {ended.fruitless + 1} starts in a row gained no step beyond {ended.step}")
    if ended.requeues >= ended.max_requeues:
        return Next(EXIT_INTERRUPTED, f"{cause}; slurm.max_requeues is {ended.max_requeues}")
    return Next(None, f"{cause}; requeue {ended.requeues + 1} of {ended.max_requeues}")


def before(folder: Path) -> str:
    """Returns a new start's word, which identifies the current run.json and the newest checkpoint."""
    return f"{_fingerprint(folder)}/{_step(folder)}"


def after(folder: Path, job: str, word: str, code: int, max_requeues: int, **how: bool) -> Next:
    """Returns what follows, and records it in run.json and job_ends.jsonl. how: the flags of Ended."""
    fingerprint, _, step_before = word.partition("/")
    earlier = [line for line in _ends(folder) if line.get("job") == job]
    record = Record(folder, 0)
    content = record.read() or None if _fingerprint(folder) != fingerprint else None
    ended = Ended(
        code=code,
        record=content,
        step=_step(folder),
        step_before=int(step_before),
        max_requeues=max_requeues,
        requeues=sum(line.get("counted") is True for line in earlier),
        fruitless=_fruitless(earlier),
        is_another=content is not None and content.get("status") == "running" and content.get("slurm_job") != job,
        **how,
    )
    decision = decide(ended)
    _tell(record, decision)
    line = {
        "job": job,
        "code": code,
        "step_before": ended.step_before,
        "step": ended.step,
        "next": REQUEUE if decision.exit_code is None else decision.exit_code,
        "counted": decision.exit_code is None and not ended.preempted,
        "because": decision.because,
    }
    with open(open_to_append(folder, ENDS_FILE), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return decision


def _tell(record: Record, decision: Next) -> None:
    """Records in run.json how a start ended, if no end is recorded, or if the recorded end is not final."""
    if decision.exit_code is None or decision.exit_code == EXIT_INTERRUPTED:
        record.end("interrupted", EXIT_INTERRUPTED, decision.because)
    elif decision.exit_code == EXIT_FAILED:
        record.end("failed", EXIT_FAILED, decision.because, last_word=record.read().get("status") == "interrupted")


def _fruitless(lines: Sequence[Mapping[str, Any]]) -> int:
    """Returns how many of the last starts gained no step."""
    count = 0
    for line in reversed(lines):
        if line["step"] > line["step_before"]:
            break
        count += 1
    return count


def _ends(folder: Path) -> list[dict[str, Any]]:
    """Returns the ends of earlier starts; other lines are skipped."""
    ends = []
    with contextlib.suppress(OSError):
        for line in read_bytes(folder, ENDS_FILE).splitlines():
            with contextlib.suppress(ValueError):
                end = parse_json(line)
                if isinstance(end, dict) and all(isinstance(end.get(key), int) for key in ("step", "step_before")):
                    ends.append(end)
    return ends


def _step(folder: Path) -> int:
    checkpoint = latest_checkpoint(folder / "checkpoints")
    return 0 if checkpoint is None else step_of(checkpoint)


def _fingerprint(folder: Path) -> str:
    """Returns a value that changes with each write of run.json, which is replaced as a whole."""
    entry = status(folder, "run.json")
    return "none" if entry is None else f"{entry.st_ino}.{entry.st_mtime_ns}"


def main(arguments: Sequence[str]) -> None:
    """Answers the job's script: prints a word, or the decision."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    commands = parser.add_subparsers(dest="when", required=True)
    commands.add_parser("before")
    ended = commands.add_parser("after")
    ended.add_argument("--job", required=True)
    ended.add_argument("--before", required=True)
    ended.add_argument("--code", type=int, required=True)
    ended.add_argument("--max-requeues", type=int, required=True)
    for flag in ("told", "preempted", "server-ended"):
        ended.add_argument(f"--{flag}", action="store_true")
    given = parser.parse_args(arguments)
    if given.when == "before":
        print(before(given.folder))
        return
    how = {name: getattr(given, name) for name in ("told", "preempted", "server_ended")}
    decision = after(given.folder, given.job, given.before, given.code, given.max_requeues, **how)
    print(REQUEUE if decision.exit_code is None else decision.exit_code)
    print(f"job {given.job}: {decision.because}", file=sys.stderr)
