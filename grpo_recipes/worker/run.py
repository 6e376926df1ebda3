"""Runs one training from start to exit code, and records it in run.json. Heavy imports are inside functions."""

import os
import socket
import sys
import time
import traceback
from pathlib import Path

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOT_STARTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_lock import TRAINING, Busy, hold
from grpo_recipes.contract.files.regular_file import NotRegular
from grpo_recipes.contract.files.run_entries import refuse_foreign_entries, strange_entry
from grpo_recipes.contract.findings.findings_text import Mistake, bare_text
from grpo_recipes.contract.findings.lost_peer import WrongSetUp, find_lost_peer
from grpo_recipes.contract.host.child_environment import OF_VLLM, find_locked_caches, settle, small_for_nccl
from grpo_recipes.contract.host.engines import in_an_image
from grpo_recipes.contract.host.foreign_modules import foreign_module
from grpo_recipes.contract.host.processes import die_with_parent, launcher_is_gone
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.contract.integrity.checkpoints import find_lost_checkpoint
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker._shared.planned import read_plan, refuse_changed_plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker._shared.verified import check_ancestor, check_model_files
from grpo_recipes.worker.checkpoints.checkpoint import PACKAGES, package_versions, remove_leftovers
from grpo_recipes.worker.resume.resuming import checkpoint_to_extend, checkpoint_to_resume
from grpo_recipes.worker.serving.other_machine import loss_of_server, wait_for_server
from grpo_recipes.worker.survival.folder_faults import explain_fault, make_room
from grpo_recipes.worker.survival.interruption import Interruption, leave_soon
from grpo_recipes.worker.survival.stall_monitor import expect_end, start_program
from grpo_recipes.worker.tools.tool_functions import check_tool_files
from grpo_recipes.worker.user_code.reward_call import explain_reward, explain_template
from grpo_recipes.worker.user_code.reward_functions import check_judges, check_reward_files

# A process that fails records this before its connections close; a shared folder shows it a moment later.
_OTHERS_SAY_WHY_S = 5.0


def train(folder: Path, *, resume: bool) -> int:
    """Trains a run folder and returns this process's exit code.

    0 done; 1 the trainer failed, with its traceback on stderr; 2 another run has this folder; 3 a check stopped it; 75
    interrupted by a signal, by a fault of a GPU, or because it lost the run's other processes or its vLLM server.
    """
    make_steady()
    settle(os.environ, folder)
    rank = int(os.environ.get("RANK", "0"))
    if "TORCHELASTIC_RUN_ID" in os.environ:
        die_with_parent()  # torchrun starts this process in its own session, so nothing else would end it
        if launcher_is_gone():
            os._exit(EXIT_INTERRUPTED)  # the launcher died before the line above
    request = Interruption()
    request.listen()
    record = Record(folder, rank)
    refused = begin(folder, record, TRAINING if rank == 0 else None, resumed=resume)
    if refused is not None:
        return _leave(refused)
    start_program(folder, rank, int(os.environ.get("WORLD_SIZE", "1")))
    request.on_first, request.on_end = expect_end, lambda: _end_at_once(record)
    try:
        code = _train(folder, record, request, resume=resume)
        expect_end()
        leave_soon(code)
        return code
    except Refused as stopped:
        if record.end("stopped", EXIT_STOPPED, stopped) or rank == 0:
            print(hide_secrets(f"error: {stopped}"), file=sys.stderr)
        return _leave(EXIT_STOPPED)
    except BaseException as problem:
        lost = find_lost_peer(problem)
        if lost is not None and not isinstance(lost, WrongSetUp):
            return _leave(_end_interrupted(record, lost))
        if (gone := loss_of_server(folder, problem)) is not None:
            print(hide_secrets(f"error: {gone}"), file=sys.stderr)
            record.end("interrupted", EXIT_INTERRUPTED, gone, for_all=True)
            return _leave(EXIT_INTERRUPTED)
        why, log_text = _words(lost or problem, folder, record)
        make_room(folder, problem)
        record.end("failed", EXIT_FAILED, why)
        print(hide_secrets(log_text), file=sys.stderr, end="")
        return _leave(EXIT_FAILED)


def begin(folder: Path, record: Record | None, lock: str | None, *, resumed: bool) -> int | None:
    """Claims a run folder and marks the run as running; returns the exit code if that fails, else None.

    record: None for a server on its own machine, whose trainers write it. lock: from folder_lock, None for a rank that
    leaves locking to the first. 2: another run has the folder, which stays untouched; 3: something in the folder is not
    the run's, and nothing was written; 1: the folder is not writable.
    """
    is_ours = False
    try:
        if lock is not None:
            hold(folder, lock)
        is_ours = True
        refuse_foreign_entries(folder, deep=lock is not None)
        if record is not None:
            record.start(resumed=resumed)
    except Busy as busy:
        print(f"error: {busy}", file=sys.stderr, flush=True)
        return EXIT_NOT_STARTED
    except NotRegular as problem:
        print(hide_secrets(f"error: {bare_text([strange_entry(problem)])}"), file=sys.stderr, flush=True)
        return EXIT_STOPPED
    except OSError as problem:
        why = None if record is None else explain_fault(problem, record.same)
        if record is None or why is None:
            raise
        print(hide_secrets(f"error: {why}"), file=sys.stderr, flush=True)
        if is_ours:
            record.end("failed", EXIT_FAILED, why, last_word=True)
        return EXIT_FAILED
    return None


def _train(folder: Path, record: Record, request: Interruption, *, resume: bool) -> int:
    phases = StartPhases(record)
    phases.begin("checking the files")
    plan = read_plan(folder)
    refuse_changed_plan(folder)
    check_world(plan)
    check_releases(plan)
    refuse_locked_caches(plan)
    warn_of_small_limits(plan)
    user = folder / "worker" / "user"
    check_reward_files(plan.rewards, user)
    check_judges(plan.rewards)
    check_tool_files(plan, user)
    check_model_files(plan.model)
    if os.environ.get("RANK", "0") == "0" and not resume:
        check_ancestor(plan.ancestor)
    checkpoint = _first_step(plan, folder, record, resume=resume)
    wait_for_server(plan, folder)

    phases.begin("importing the libraries")
    with keep_imports():
        quiet_libraries()
        from grpo_recipes.worker.training import run_training

    interrupted = run_training(plan, folder, record, request, checkpoint, phases)
    if interrupted:
        why = loss_of_server(folder)
        is_begun = bool(record.read().get("step"))
        stopped = f"stopped by a signal {'after a complete step' if is_begun else 'before the first step'}"
        record.end("interrupted", EXIT_INTERRUPTED, stopped if why is None else f"{why}; {stopped}")
        checkpoint_words = "the checkpoint is complete and " if is_begun else ""
        print(f"interrupted; {checkpoint_words}the run can be resumed", flush=True)
        return EXIT_INTERRUPTED
    ended_early = record.evaluation().get("ended_early")
    record.end("completed", EXIT_DONE, None if ended_early is None else str(ended_early["because"]))
    return EXIT_DONE


def _words(problem: BaseException, folder: Path, record: Record) -> tuple[Mistake | str, str]:
    """Returns why the trainer failed, for run.json, and the text for the log, with a traceback only if it helps."""
    why = problem if isinstance(problem, Mistake) else explain_fault(problem, record.same)
    if why is None:
        if (words := explain_reward(problem, folder / "worker" / "user")) is not None:
            return words
        if (template := explain_template(problem)) is not None:
            return template, f"error: {template}\n"
        if (foreign := foreign_module(problem)) is None:
            return f"{type(problem).__name__}: {problem}", traceback.format_exc()
        why = Mistake(foreign)
    return why, f"error: {why}\n"


def _end_interrupted(record: Record, lost: Mistake) -> int:
    """Records that this process lost the others, unless one of them soon reports a failure."""
    print(hide_secrets(f"{traceback.format_exc()}error: {lost}"), file=sys.stderr, flush=True)
    give_up = time.monotonic() + _OTHERS_SAY_WHY_S
    while time.monotonic() < give_up and record.read().get("status") == "running":
        time.sleep(0.2)
    record.end("interrupted", EXIT_INTERRUPTED, lost, for_all=True)
    return EXIT_INTERRUPTED


def _first_step(plan: Plan, folder: Path, record: Record, *, resume: bool) -> Path | None:
    """Returns the checkpoint to resume from, None for a new run. The first rank prints it and removes leftovers."""
    refuse_checkpoints(folder, resume=resume)
    is_first = os.environ.get("RANK", "0") == "0"
    checkpoint, lines = checkpoint_to_resume(folder, plan, contents=is_first) if resume else (None, [])
    if checkpoint is None and not record.read().get("launches"):
        lines = []  # a sweep starts its new runs with --resume, too
    if checkpoint is None and plan.extends is not None:
        checkpoint, lines = checkpoint_to_extend(folder, plan, contents=is_first)
    if resume and (lost := find_lost_checkpoint(folder, record.read().get("checkpoint"))) is not None:
        lines = [f"{lost}, which run.json names, is missing", *lines]
    if is_first:
        remove_leftovers(folder)
        for line in lines:
            print(line, flush=True)
    record.update(resumed=lines)
    if checkpoint is None:
        record.update(step=0, checkpoint=None, guards=[], evaluation={}, metrics={})
    return checkpoint


def refuse_checkpoints(folder: Path, *, resume: bool) -> None:
    """Raises Refused if a fresh start would train over an earlier run's checkpoints."""
    checkpoints = folder / "checkpoints"
    if not resume and any(checkpoints.glob("checkpoint-*")):
        raise Refused.of(f"{checkpoints} already has checkpoints", fix="start with --resume, or use a new run folder")


def check_world(plan: Plan) -> None:
    """Raises Refused if the launcher started other processes or machines than planned. Imports nothing.

    torchrun sets GROUP_WORLD_SIZE (machines) and LOCAL_WORLD_SIZE (processes on this one).
    """
    machines = plan.world.num_nodes
    planned = {
        "WORLD_SIZE": ("processes started", plan.expect.world_size),
        "GROUP_WORLD_SIZE": ("machines that started", machines),
        "LOCAL_WORLD_SIZE": ("processes started on this machine", plan.expect.world_size // machines),
    }
    for name, (what, count) in planned.items():
        started = int(os.environ.get(name, "1" if name == "WORLD_SIZE" else count))
        if started != count:
            raise Refused.of(
                f"{what}: {started}, planned: {count}",
                because="the global batch, and so the experiment, depends on the number of processes",
                fix=f"start with launch.sh of the run folder{' on each machine' if machines > 1 else ''}, or plan "
                f"again for {'these machines' if machines > 1 else 'this machine'}",
            )


def check_releases(plan: Plan) -> None:
    """Raises Refused if an image's releases differ from the plan's, unless that was accepted."""
    planned = plan.stack.get("packages")
    if plan.accept_drift or not in_an_image(plan.job) or not isinstance(planned, dict):
        return
    here = package_versions()
    different = [name for name in PACKAGES if name in planned and planned[name] != here.get(name)]
    if different:
        raise Refused.of(
            "the image's releases differ from the plan's",
            because=[f"{name}: plan {planned[name] or 'none'}, here {here.get(name, 'none')}" for name in different],
            fix="--target image.json, which grpo-run doctor --json writes in the image; or --accept-drift",
        )


def refuse_locked_caches(plan: Plan) -> None:
    """Raises Refused if this user cannot write vLLM's caches, without which it fails minutes later."""
    if plan.vllm is not None and plan.vllm.mode == "colocate" and plan.world.device == "cuda":
        locked = find_locked_caches(os.environ, OF_VLLM, "error")
        if locked is not None:
            raise Refused(locked)


def warn_of_small_limits(plan: Plan) -> None:
    """Warns once per machine about limits that may be too small for NCCL, minutes before it fails."""
    if os.environ.get("LOCAL_RANK", "0") == "0" and plan.world.device == "cuda" and plan.world.num_processes > 1:
        for finding in small_for_nccl():
            print(f"warning: {socket.gethostname()}: {finding.message}; {finding.fix} [{finding.rule}]", flush=True)


def _end_at_once(record: Record) -> None:
    record.end("interrupted", EXIT_INTERRUPTED, "ended immediately by a signal")
    expect_end()


def _leave(exit_code: int) -> int:
    """Exits immediately if there are several processes: a normal exit would wait for ranks that wait for this rank."""
    expect_end()
    sys.stdout.flush()
    sys.stderr.flush()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os._exit(exit_code)
    leave_soon(exit_code)
    return exit_code
