"""One training from start to exit code, all of it said in run.json. Nothing heavy is imported up here."""

import os
import sys
import traceback
from pathlib import Path

from grpo_recipes.trust.redact import hide_secrets
from grpo_recipes.worker.planned import Plan, read_plan
from grpo_recipes.worker.quiet import quiet_libraries
from grpo_recipes.worker.record import Record
from grpo_recipes.worker.reward_functions import check_reward_files
from grpo_recipes.worker.stop_request import StopRequest
from grpo_recipes.worker.stopped import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_STOPPED,
    Stopped,
)
from grpo_recipes.worker.verified import check_model_files


def train(folder: Path, *, resume: bool) -> int:
    """Trains a run folder and returns the exit code of this process.

    0 done; 1 the trainer failed, with its traceback on stderr; 3 a check stopped it; 75 interrupted by a
    signal.
    """
    rank = int(os.environ.get("RANK", "0"))
    record = Record(folder, rank)
    record.start(resumed=resume)
    request = StopRequest(lambda: _end_at_once(record))
    request.listen()
    try:
        return _trained(folder, record, request, resume=resume)
    except Stopped as stopped:
        if record.end("stopped", EXIT_STOPPED, str(stopped)) or rank == 0:
            print(hide_secrets(f"error: {stopped}"), file=sys.stderr)
        return _leave(EXIT_STOPPED)
    except BaseException as problem:
        record.end("failed", EXIT_FAILED, f"{type(problem).__name__}: {problem}")
        print(hide_secrets(traceback.format_exc()), file=sys.stderr, end="")
        return _leave(EXIT_FAILED)


def _trained(folder: Path, record: Record, request: StopRequest, *, resume: bool) -> int:
    plan = read_plan(folder)
    check_world(plan)
    user = folder / "worker" / "user"
    check_reward_files(plan.rewards, user)
    check_model_files(plan.model)
    stop_at_checkpoints(folder, resume=resume)

    quiet_libraries()
    from grpo_recipes.worker.training import run_training

    interrupted = run_training(plan, folder, record, request, resume=resume)
    if interrupted:
        record.end("interrupted", EXIT_INTERRUPTED, "stopped by a signal after a whole step")
        print("interrupted; the checkpoint is whole and the run can be resumed", flush=True)
        return EXIT_INTERRUPTED
    record.end("completed", EXIT_DONE)
    return EXIT_DONE


def stop_at_checkpoints(folder: Path, *, resume: bool) -> None:
    """Raises Stopped when a fresh start would train over the checkpoints of an earlier one."""
    checkpoints = folder / "checkpoints"
    if not resume and any(checkpoints.glob("checkpoint-*")):
        raise Stopped(f"{checkpoints} has checkpoints already\n  = fix: start with --resume, or use a new run folder")


def _end_at_once(record: Record) -> None:
    record.end("interrupted", EXIT_INTERRUPTED, "ended at once by a signal")


def check_world(plan: Plan) -> None:
    """Raises Stopped if the launcher started another number of processes than planned. Costs no import."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != plan.expect.world_size:
        raise Stopped(
            f"processes started: {started}, planned: {plan.expect.world_size}\n"
            f"  = because: the global batch and so the experiment depend on the number of processes\n"
            f"  = fix: start with launch.sh of the run folder, or plan again for this machine"
        )


def _leave(exit_code: int) -> int:
    """Ends a process of several at once: a regular end would wait for ranks that wait for this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os._exit(exit_code)
    return exit_code
