"""The training itself: processes, data, trainer, checks, steps, and what is left in the run folder."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.integrity.checkpoints import step_of
from grpo_recipes.contract.metrics import number
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import count_equal_groups
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.planned import own_model_folder, trust_remote_code
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.same_folder import check_before_saving
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker._shared.verified import refuse_if_not_found, seen_in_trainer
from grpo_recipes.worker.callbacks.evaluation_callback import EvaluationCallback
from grpo_recipes.worker.callbacks.guard_callback import GuardCallback
from grpo_recipes.worker.callbacks.interruption_callback import InterruptionCallback
from grpo_recipes.worker.callbacks.progress import ProgressLines
from grpo_recipes.worker.callbacks.proof_callback import ProofCallback
from grpo_recipes.worker.callbacks.step_times import StepTimes
from grpo_recipes.worker.callbacks.trained import Trained
from grpo_recipes.worker.checkpoints.checkpoint import save_final, save_whole_checkpoints
from grpo_recipes.worker.checkpoints.model_card import hand_over
from grpo_recipes.worker.completions.held_out_environments import answer_held_out_rows_with
from grpo_recipes.worker.completions.kept_completions import keep_completions, redact_completions
from grpo_recipes.worker.data.dataset import prepared_rows, without_cache
from grpo_recipes.worker.data.templates import refuse_endless_template
from grpo_recipes.worker.ends.ended import EndedShares
from grpo_recipes.worker.memory.counters import counter_of
from grpo_recipes.worker.memory.out_of_memory import out_of_memory
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.memory.phase_seams import PhaseCallback, watch_phases, watch_saves
from grpo_recipes.worker.proofs.before_training.catalog import compared
from grpo_recipes.worker.proofs.before_training.compared import as_records, line
from grpo_recipes.worker.resume.resuming import agreed, experiment
from grpo_recipes.worker.resume.run_state import ResumedEpochs, RunState, ScheduleOfTheNewLength, told_until
from grpo_recipes.worker.serving.address import check_other_server
from grpo_recipes.worker.shims.catalog import apply_before_trainer, apply_on_trainer
from grpo_recipes.worker.survival.extension_lock import refuse_stale_lock
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.survival.waiting import wait_as_planned
from grpo_recipes.worker.tools.tool_figures import watch_tools
from grpo_recipes.worker.tools.turns import Turns, load_turns
from grpo_recipes.worker.trackers.catalog import Reports, begin_reports
from grpo_recipes.worker.trainer.generation_file import set_aside
from grpo_recipes.worker.trainer.loaded_trainer import loaded_everywhere
from grpo_recipes.worker.trainer.model import SeedEachStep, build_trainer, training_arguments
from grpo_recipes.worker.trainer.own_model import write_own_model
from grpo_recipes.worker.user_code.contained import trains_here
from grpo_recipes.worker.user_code.outcome import refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards
from grpo_recipes.worker.user_code.user_modules import run_only_planned_code
from grpo_recipes.worker.vllm.engine import close_engine


def run_training(
    plan: Plan,
    folder: Path,
    record: Record,
    request: Interruption,
    checkpoint: Path | None,
    phases: StartPhases,
) -> bool:
    """Trains, and returns whether a signal interrupted it. Raises Refused if a check forbids it, OutOfMemory.

    checkpoint: the one that is gone on from, None for a beginning; that of the first rank counts.
    """
    trains_here()
    peaks = PhasePeaks(counter_of(plan.world.device), record.read().get("memory", {}))
    turns = load_turns(plan, folder / "worker" / "user")
    try:
        return _trained(plan, folder, record, request, checkpoint, peaks, phases, turns)
    except Exception as problem:
        told = out_of_memory(problem, plan, peaks, folder / "worker" / "user")
        if told is None:
            raise
        record.update(memory=peaks.record(plan))
        raise told from problem
    finally:
        turns.close()


def _trained(
    plan: Plan,
    folder: Path,
    record: Record,
    request: Interruption,
    checkpoint: Path | None,
    peaks: PhasePeaks,
    phases: StartPhases,
    turns: Turns,
) -> bool:
    trainer, held_out = _prepared(plan, folder, record, phases, turns)
    checkpoint = agreed(checkpoint)
    comparisons = compared(plan, loaded_everywhere(plan, trainer))
    record.update(checks=as_records(comparisons))
    failed = [finding for one in comparisons if (finding := one.finding) is not None]
    if failed:
        raise Refused(*failed)
    if trainer.is_world_process_zero():
        print(line(comparisons), flush=True)

    told: dict[str, Any] = {}
    if checkpoint is not None:
        own = str(checkpoint) if checkpoint.is_relative_to(folder) else None
        keeps_best = plan.evaluation is not None and plan.evaluation.keep_best
        told = agreed(told_until(checkpoint, folder, keeps_best=keeps_best))
        record.update(step=step_of(checkpoint), checkpoint=own, **told)
    stop = InterruptionCallback(request, trainer)
    is_own = checkpoint is not None and checkpoint.is_relative_to(folder)
    reports = begin_reports(trainer, plan, folder, record, step_of(checkpoint) if checkpoint and is_own else 0)
    known = told.get("evaluation", {})
    log, guards, best_step = _add_callbacks(
        trainer, plan, held_out, folder, record, stop, checkpoint, peaks, phases, reports, known
    )
    peaks.told = phases.first_step_goes_on_with
    request.can_wait = True
    earlier = record.read()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except Trained:
        # transformers would train one step more than max_steps, or than stop_after lets it.
        trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)
    except BaseException:
        reports.fail()
        raise
    finally:
        guards.close()
    if trainer.accelerator.num_processes == 1 and not stop.interrupted:
        for answered in (getattr(reward, "answered", None) for reward in trainer.reward_funcs):
            if answered is not None:
                answered.refuse_no_answer()
    cpu_s, wall_s = _cpu_of_all_ranks(trainer, time.process_time() - cpu), time.perf_counter() - wall
    spent = _of_all_launches(earlier, {"train_cpu_s": cpu_s, "train_wall_s": wall_s})
    record.update(step=trainer.state.global_step, **spent)
    if not stop.interrupted and not plan.smoke:
        peaks.goes_on_with("save")
        commit = getattr(trainer.model.config, "_commit_hash", None)
        best, last = best_step(), trainer.state.global_step
        record.update(final_step=last if best is None else best)
        of_best = None if best in (None, last) else folder / "checkpoints" / f"checkpoint-{best}"
        save_final(trainer, folder / "final", lambda model: hand_over(folder, model, commit), of_best)
        record.update(final=str(folder / "final"))
    peaks.tell_all(trainer)
    record.update(memory=peaks.record(plan))
    if log is not None:
        log.write("end", trainer.state.global_step, status="interrupted" if stop.interrupted else "completed")
    close_engine(trainer)
    trainer.accelerator.end_training()
    return stop.interrupted


def _prepared(plan: Plan, folder: Path, record: Record, phases: StartPhases, turns: Turns) -> tuple[Any, Any]:
    """The trainer, its shims applied, and the held-out rows, None without an evaluation."""
    if trust_remote_code(plan):
        run_only_planned_code(plan)
    apply_before_trainer(plan)
    wait_as_planned(plan.arguments.GRPOConfig)
    refuse_stale_lock(folder)
    rank = int(os.environ.get("RANK", "0"))
    if rank == 0:
        # The other ranks wait for this one, too, before they read the data.
        without_cache(folder / "cache")
    if plan.trains_a_copy and rank == 0:
        # The other ranks wait for this one inside training_arguments, where the processes find each other.
        write_own_model(plan, own_model_folder(plan, folder))
    if plan.expect.world_size > 1:
        phases.goes_on_with("finding the other processes")
    arguments = training_arguments(plan, folder)
    _check_live_world(plan, arguments)
    if rank == 0 and (other := check_other_server(plan, arguments, folder)) is not None:
        print(other, flush=True)
    phases.goes_on_with("preparing the data")
    seen: dict[str, object] = {}
    rows = prepared_rows(plan.data, "dataset", folder / "cache", rank, seen)
    held_out = None
    if plan.evaluation is not None:
        held_out = prepared_rows(plan.evaluation.data, "evaluation", folder / "cache", rank, seen)
    rewards = load_rewards(plan.rewards, folder / "worker" / "user", refuse_no_numbers)
    phases.goes_on_with("loading the model")
    trainer = build_trainer(plan, arguments, rows, rewards, folder, turns.arguments)
    redact_completions(trainer)
    refuse_if_not_found(plan, seen | seen_in_trainer(trainer, plan), record)
    refuse_endless_template(trainer, rows)
    ignored = set_aside(trainer)
    if ignored and trainer.is_world_process_zero():
        print(f"not used of the model's generation_config.json  {', '.join(ignored)}", flush=True)
    record.update(generation_config_ignored=ignored, shims=apply_on_trainer(trainer, plan))
    count_equal_groups(trainer)
    watch_tools(trainer, turns.tally)
    answer_held_out_rows_with(trainer, turns.environment)
    return trainer, held_out


def _check_live_world(plan: Plan, arguments: Any) -> None:
    """The processes that found each other, before anything loads; a wrong backend leaves each alone."""
    live = arguments.distributed_state.num_processes
    if live != plan.expect.world_size:
        raise Refused.of(
            f"processes that train together: {live}, planned: {plan.expect.world_size}",
            because=f"accelerate sees {arguments.distributed_state.distributed_type} on "
            f"{arguments.distributed_state.device}",
            fix="start with launch.sh of the run folder, or plan again for this machine",
        )


def _add_callbacks(
    trainer: Any,
    plan: Plan,
    held_out: Any,
    folder: Path,
    record: Record,
    stop: InterruptionCallback,
    checkpoint: Path | None,
    peaks: PhasePeaks,
    phases: StartPhases,
    reports: Reports,
    known: Mapping[str, Any],
) -> tuple[MetricsLog | None, GuardCallback, Callable[[], int | None]]:
    """Adds what watches the training; returns the metrics log, None on other ranks than 0, and the guards.

    The third tells the step of the checkpoint to hand over, None for the last one. known: the evaluations so far.
    """
    log = None
    resume_step = None if checkpoint is None else step_of(checkpoint)
    if trainer.is_world_process_zero():
        log = MetricsLog(folder / "metrics.jsonl", resume_step=resume_step)
        log.told = reports.tell
    watch_phases(trainer, peaks)
    keep_completions(trainer, plan, folder, resume_step=resume_step)
    trainer.add_callback(PhaseCallback(trainer, peaks, phases))
    trainer.add_callback(ResumedEpochs(trainer))
    if checkpoint is not None and not checkpoint.is_relative_to(folder):
        trainer.add_callback(ScheduleOfTheNewLength(trainer))
    trainer.add_callback(SeedEachStep(trainer.args.seed, trainer.accelerator.process_index))
    trainer.add_callback(stop)
    trainer.add_callback(EndedShares(trainer, plan))
    evaluation = None
    if held_out is not None:
        evaluation = EvaluationCallback(trainer, plan, held_out, folder, record, log, stop, peaks, known)
    if log is not None:
        times = StepTimes(trainer, record, lambda: 0.0 if evaluation is None else evaluation.seconds)
        trainer.add_callback(times)
        trainer.add_callback(ProgressLines(plan, record, log, times, peaks))
    if evaluation is not None:
        trainer.add_callback(evaluation)
    guards = GuardCallback(trainer, plan, folder, record, log)
    if evaluation is not None:
        evaluation.on_batch = lambda: guards.still("a batch of an evaluation")
    trainer.add_callback(guards)
    state = RunState(trainer, record, guards, log, checkpoint)
    best_step = _no_step if evaluation is None else evaluation.kept_step
    save_whole_checkpoints(trainer, experiment(folder), state.save, best_step)
    check_before_saving(trainer, record.same)
    watch_saves(trainer, peaks)
    trainer.add_callback(state)
    trainer.add_callback(ProofCallback(trainer, plan, record, peaks))  # the last one, since it leaves when it is done
    return log, guards, best_step


def _no_step() -> None:
    """Nothing was evaluated, so no checkpoint is better than the last one."""


def _of_all_launches(earlier: Mapping[str, Any], spent: Mapping[str, float]) -> dict[str, float | None]:
    """Seconds with those of the launches before; None where one of them was killed before it could say its own."""
    before = {name: number(earlier, name) if earlier.get("launches") else 0.0 for name in spent}
    return {name: None if (more := before[name]) is None else round(more + own, 3) for name, own in spent.items()}


def _cpu_of_all_ranks(trainer: Any, own_s: float) -> float:
    if trainer.accelerator.num_processes == 1:
        return own_s
    return float(sum(gather_object([own_s])))
