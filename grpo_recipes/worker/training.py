"""Runs the training itself; all processes call the same methods in the same order, since some wait for all."""

import os
import time
from pathlib import Path
from typing import Any

from grpo_recipes.contract.integrity.checkpoints import step_of
from grpo_recipes.contract.metrics import METRICS_FILE, number, read_all, trends
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import count_equal_groups
from grpo_recipes.worker._shared.library import gather_from_all
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.planned import model_path, trust_remote_code
from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.same_folder import check_before_saving
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker._shared.verified import check_live_world, facts_of_trainer, loaded_commit, refuse_if_not_found
from grpo_recipes.worker.callbacks.ended_shares import log_ends
from grpo_recipes.worker.callbacks.evaluation_callback import EvaluationCallback, Trained
from grpo_recipes.worker.callbacks.guard_callback import GuardCallback
from grpo_recipes.worker.callbacks.progress import InterruptionCallback, ProgressLines, StepTimes, Stopped
from grpo_recipes.worker.callbacks.proof_callback import ProofCallback
from grpo_recipes.worker.callbacks.token_figures import TokenFigures
from grpo_recipes.worker.callbacks.warm_start import warm_start_callback
from grpo_recipes.worker.checkpoints.checkpoint import save_final, save_whole_checkpoints
from grpo_recipes.worker.checkpoints.model_card import hand_over
from grpo_recipes.worker.completions.held_out_environments import answer_held_out_rows_with
from grpo_recipes.worker.completions.kept_completions import keep_completions, redact_completions
from grpo_recipes.worker.completions.resampled_groups import resample_groups
from grpo_recipes.worker.data.chosen_rows import refuse_rows_of_text, refuse_tokens_of_images
from grpo_recipes.worker.data.dataset import prepare_rows, without_cache
from grpo_recipes.worker.data.gold_rows import WHERE, with_answers
from grpo_recipes.worker.data.mixture import prompts_of_run, training_rows
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.data.templates import refuse_endless_template
from grpo_recipes.worker.memory.out_of_memory import out_of_memory
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks, counter_of
from grpo_recipes.worker.memory.watched_phases import PhaseCallback, watch_phases
from grpo_recipes.worker.model.build_trainer import (
    build_trainer,
    planned_processing,
    training_arguments,
    wait_as_planned,
)
from grpo_recipes.worker.model.generation_file import set_aside
from grpo_recipes.worker.model.loaded_trainer import loaded
from grpo_recipes.worker.model.seeds import SeedEachStep
from grpo_recipes.worker.model.written_models import write_models
from grpo_recipes.worker.proofs.before_training.catalog import compared
from grpo_recipes.worker.proofs.before_training.compared import as_records, line
from grpo_recipes.worker.resume.extended_schedule import ScheduleOfTheNewLength
from grpo_recipes.worker.resume.resumed_epochs import ResumedEpochs
from grpo_recipes.worker.resume.resuming import agree_on, experiment
from grpo_recipes.worker.resume.run_state import RunState, keep_dtypes, place_at, record_at
from grpo_recipes.worker.serving.health import check_other_server
from grpo_recipes.worker.shims.catalog import apply_before_trainer, apply_on_trainer
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.tools.tool_figures import watch_tools
from grpo_recipes.worker.tools.turns import Turns, load_turns
from grpo_recipes.worker.trackers import begin_reports
from grpo_recipes.worker.user_code.failed_completions import let_failed_leave
from grpo_recipes.worker.user_code.isolation import trains_here
from grpo_recipes.worker.user_code.model_code import run_only_planned_code
from grpo_recipes.worker.user_code.reward_call import refuse_no_numbers
from grpo_recipes.worker.user_code.reward_functions import load_rewards
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

    checkpoint: the one to resume from, None for a new run; the first rank's decides.
    """
    trains_here()
    training = Training(plan, folder, record, request, phases)
    turns = load_turns(plan, training.user)
    try:
        training.prepare(turns)
        training.refuse_unplanned()
        training.start_from(agree_on(checkpoint))
        training.watch()
        training.train()
        training.hand_over()
    except Exception as problem:
        failure = out_of_memory(problem, plan, training.peaks, training.user)
        if failure is None:
            raise
        record.update(memory=training.peaks.record(plan))
        raise failure from problem
    finally:
        turns.close()
    return training.stop.interrupted


class Training:
    """One training on this process. Each method needs the results of the ones before it."""

    def __init__(self, plan: Plan, folder: Path, record: Record, request: Interruption, phases: StartPhases) -> None:
        self.plan, self.folder, self.record, self.request, self.phases = plan, folder, record, request, phases
        self.user = folder / "worker" / "user"
        self.peaks = PhasePeaks(counter_of(plan.world.device), record.read().get("memory", {}))
        self.trainer: Any = None
        self.held_out: list[Any] = []
        self.checkpoint: Path | None = None

    def prepare(self, turns: Turns) -> None:
        """Creates the trainer, with data, rewards, model and shims, and loads the held-out rows."""
        plan, folder, phases = self.plan, self.folder, self.phases
        # First, changes to the libraries: a model's code, patches, and timeouts between processes.
        if trust_remote_code(plan):
            run_only_planned_code(plan)
        apply_before_trainer(plan)
        wait_as_planned(plan.arguments.GRPOConfig)
        # Then the first process's own work, before all processes connect in training_arguments.
        rank = int(os.environ.get("RANK", "0"))
        if rank == 0:
            without_cache(folder / "cache")
            write_models(plan, folder)
        if plan.expect.world_size > 1:
            phases.begin("finding the other processes")
        arguments = training_arguments(plan, folder)
        check_live_world(plan, arguments)
        if rank == 0 and (other := check_other_server(plan, arguments, folder)) is not None:
            print(other, flush=True)
        phases.begin("preparing the data")
        facts, cache = dict[str, object](), folder / "cache"
        self.tokens = tokens = PromptTokens(
            plan, lambda: planned_processing(plan, model_path(plan, folder)), lambda: turns.arguments.get("tools", ())
        )
        with arguments.main_process_first():  # of each machine; the others reuse its rows
            how: dict[str, Any] = {"is_resumed_later": True, "first": rank - int(os.environ.get("LOCAL_RANK", "0"))}
            self.rows, note = training_rows(plan, cache, rank, facts, tokens=tokens, **how)
            if plan.warm_start is not None:
                self.gold = prepare_rows(with_answers(plan), WHERE, cache, rank, tokens=tokens, **how)
            for evaluation in () if plan.evaluation is None else plan.evaluation.sets:
                self.held_out.append(prepare_rows(evaluation.data, evaluation.section, cache, rank, facts, **how))
        self.prefill = prefill = Prefill.of_plan(plan, lambda: self.trainer.processing_class)
        rewards = load_rewards(plan.rewards, self.user, refuse_no_numbers, prefill)
        phases.begin("loading the model")
        self.trainer = trainer = build_trainer(plan, arguments, self.rows, rewards, folder, turns.arguments)
        # Last, wrappers of the trainer's own methods, which need the loaded model.
        let_failed_leave(trainer, plan.rewards)
        redact_completions(trainer)
        refuse_if_not_found(plan, facts | facts_of_trainer(trainer, plan), self.record)
        refuse_endless_template(trainer.processing_class, [self.rows[0]["prompt"]], plan.arguments.GRPOConfig)
        refuse_tokens_of_images(plan, trainer.processing_class, self.rows, self.held_out)
        refuse_rows_of_text(plan, trainer.model.config.model_type, self.rows, self.held_out)
        if note:
            self._say(note)
        if ignored := set_aside(trainer):
            self._say(f"ignored in the model's generation_config.json  {', '.join(ignored)}")
        resample_groups(trainer, plan.resample_groups, prompts_of_run(plan) if plan.sources else None)
        self.record.update(generation_config_ignored=ignored, shims=apply_on_trainer(trainer, plan))
        count_equal_groups(trainer, plan.rewards, tuple(str(data.source_name) for data in plan.sources))
        log_ends(trainer, plan)
        watch_tools(trainer, turns.tally)
        answer_held_out_rows_with(trainer, turns.environment)

    def refuse_unplanned(self) -> None:
        """Runs the proofs before the first step. Raises Refused."""
        comparisons = compared(self.plan, gather_from_all(self.trainer, [loaded(self.plan, self.trainer)]))
        self.record.update(checks=as_records(comparisons))
        failed = [finding for comparison in comparisons if (finding := comparison.finding) is not None]
        if failed:
            raise Refused(*failed)
        self._say(line(comparisons))

    def start_from(self, checkpoint: Path | None) -> None:
        """Restores run.json's values at the checkpoint, and begins the run in the tracking services.

        A checkpoint in another run folder belongs to a run to extend: only its step counts, everything else starts new.
        """
        self.checkpoint, self.known = checkpoint, dict[str, Any]()
        self.is_own = checkpoint is not None and checkpoint.is_relative_to(self.folder)
        self.step = None if checkpoint is None else step_of(checkpoint)
        if checkpoint is not None:
            keeps_best = self.plan.evaluation is not None and self.plan.evaluation.keep_best
            recorded = agree_on(record_at(checkpoint, self.folder, keeps_best=keeps_best))
            self.known = recorded["evaluation"]
            self.record.update(step=self.step, checkpoint=str(checkpoint) if self.is_own else None, **recorded)
        step = self.step if self.is_own else None
        self.reports = begin_reports(self.trainer, self.plan, self.folder, self.record, step or 0)

    def watch(self) -> None:
        """Adds the watchers of the training. Where several are at one member, order.py has their order."""
        trainer, plan, folder, record, peaks = self.trainer, self.plan, self.folder, self.record, self.peaks
        self.log = log = None
        if trainer.is_world_process_zero():
            place = None if self.checkpoint is None else place_at(self.checkpoint)
            self.log = log = MetricsLog(folder / "metrics.jsonl", resume_step=place)
            log.on_event = self.reports.tell
        watch_phases(trainer, peaks)
        keep_completions(trainer, plan, folder, resume_step=self.step)
        self.stop = stop = InterruptionCallback(self.request, trainer)
        self.evaluation = evaluation = None
        if plan.evaluation is not None:
            evaluation = EvaluationCallback(trainer, plan, self.held_out, folder, record, log, stop, peaks, self.known)
            self.evaluation = evaluation
        apart: list[Any] = [] if evaluation is None else [evaluation]  # whose time is not that of steps
        epochs = ResumedEpochs(trainer)
        figures: list[Any] = []
        if log is not None:
            times = StepTimes(plan, record, peaks, lambda: sum(each.seconds for each in apart))
            figures = [times, ProgressLines(plan, record, log, times, peaks)]
        self.guards = guards = GuardCallback(trainer, plan, record, log)
        if evaluation is not None:
            evaluation.guards = guards
        warm_start = warm_start_callback(self, evaluation, guards)
        apart += [] if warm_start is None else [warm_start]
        state = RunState(trainer, record, guards, log, self.checkpoint, warm_start)
        keep_dtypes(trainer)
        save_whole_checkpoints(trainer, experiment(folder), state.save, self._best_step)
        check_before_saving(trainer, record.same)
        callbacks = [
            PhaseCallback(peaks, self.phases),
            epochs,
            *([ScheduleOfTheNewLength(trainer)] if self.checkpoint is not None and not self.is_own else []),
            SeedEachStep(trainer.args.seed, trainer.accelerator.process_index),
            stop,  # before callbacks that inspect saved files
            TokenFigures(trainer),
            *figures,
            *([] if evaluation is None else [evaluation]),
            guards,  # after callbacks that evaluate and log, so that no step includes an evaluation
            state,  # after the guards, whose state it restores
            *([] if warm_start is None else [warm_start]),  # after its step was restored
            ProofCallback(trainer, plan, record, peaks),  # last, since it removes itself when done
        ]
        for callback in callbacks:
            trainer.add_callback(callback)

    def train(self) -> None:
        """Trains to the last step, or until a signal, stop_after, a guard or a proof ends it."""
        trainer, start = self.trainer, None if self.checkpoint is None else str(self.checkpoint)
        self.peaks.on_phase = self.phases.begin_in_first_step
        self.request.can_wait = True
        earlier = self.record.read()
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            trainer.train(resume_from_checkpoint=start)
        except (Trained, Stopped):
            # transformers would train one step more than max_steps or stop_after allow.
            trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)
        except BaseException:
            self.reports.fail()
            raise
        finally:
            self.guards.close()
        if trainer.accelerator.num_processes == 1 and not self.stop.interrupted:
            for answered in (getattr(reward, "answered", None) for reward in trainer.reward_funcs):
                if answered is not None:
                    answered.refuse_no_answer()
        cpu_s = float(sum(gather_from_all(trainer, [time.process_time() - cpu])))
        spent = {"train_cpu_s": cpu_s, "train_wall_s": time.perf_counter() - wall}
        # Including earlier launches; None if one of them was killed before it recorded its time.
        before = {name: number(earlier, name) if earlier.get("launches") else 0.0 for name in spent}
        sums = {name: None if (more := before[name]) is None else round(more + own, 3) for name, own in spent.items()}
        self.record.update(step=trainer.state.global_step, **sums)

    def hand_over(self) -> None:
        """Writes the trained model to final/, unless the run will be resumed, and closes engines and processes."""
        trainer, folder, record, is_over = self.trainer, self.folder, self.record, not self.stop.interrupted
        last = trainer.state.global_step
        if is_over and not self.plan.smoke:
            self.peaks.begin("save")
            commit = loaded_commit(self.plan)
            best = self._best_step()
            moved = {} if self.log is None else trends(read_all(str(folder / METRICS_FILE)))
            record.update(final_step=last if best is None else best, trend=moved)
            of_best = None if best in (None, last) else folder / "checkpoints" / f"checkpoint-{best}"
            save_final(trainer, folder / "final", lambda model: hand_over(folder, model, commit), of_best)
            record.update(final=str(folder / "final"))
        self.peaks.tell_all(trainer)
        record.update(memory=self.peaks.record(self.plan))
        if self.log is not None:
            self.log.write("end", last, status="completed" if is_over else "interrupted")
        close_engine(trainer)
        trainer.accelerator.end_training()

    def _best_step(self) -> int | None:
        """Returns the step of the checkpoint to hand over, None for the last one."""
        return None if self.evaluation is None else self.evaluation.kept_step()

    def _say(self, text: str) -> None:
        if self.trainer.is_world_process_zero():
            print(text, flush=True)
