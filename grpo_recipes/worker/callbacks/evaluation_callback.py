"""Decides when to evaluate, and where the results go."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from transformers import TrainerCallback

from grpo_recipes.contract.event_words import evaluation_line, event_lines
from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import make_folder, read_bytes, write_whole
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import OTHERS, WARM_START, evaluation_file, warm_start_file
from grpo_recipes.contract.secrets.redact import redact_value
from grpo_recipes.worker._shared.inputs import IMAGES
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.callbacks.best_evaluation import BEST, CHOSEN_FROM, SINCE, BestEvaluation
from grpo_recipes.worker.callbacks.progress import InterruptionCallback
from grpo_recipes.worker.completions.evaluation import evaluate
from grpo_recipes.worker.completions.figures import (
    JudgedRow,
    change,
    cross_validated,
    summary,
    turned,
    with_intervals,
)
from grpo_recipes.worker.data.images import WithGreyImages, rows_of_text
from grpo_recipes.worker.guards import zero_variance
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks

EVALUATION = "evaluation"
_LARGEST = 4 << 30


class Trained(Exception):
    """There is nothing left to train: the last step is done, or the recipe's stop_after ended the run."""


class EvaluationCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates at the start, every so many steps, and after the last step unless the run was interrupted.

    Each completion is written with its row to evaluation/step-<step>.jsonl in the run folder, the figures to
    metrics.jsonl and run.json; each evaluation set has its own. If rows have images, the last evaluation is repeated
    with grey images. rows: of each set, in the plan's order. known: run.json's evaluations at the checkpoint that the
    run resumes from. seconds: total time of all evaluations. guards: the GuardCallback, called for each batch and
    for a policy that earns almost no reward.
    """

    def __init__(
        self,
        trainer: Any,
        plan: Plan,
        rows: Sequence[Any],
        folder: Path,
        record: Record,
        log: MetricsLog | None,
        stop: InterruptionCallback,
        peaks: PhasePeaks,
        known: Mapping[str, Any],
    ) -> None:
        assert plan.evaluation is not None
        self.seconds = 0.0
        self.guards: Any = None
        self._trainer, self._how = trainer, plan.evaluation
        each = zip(plan.evaluation.sets, rows, strict=True)
        self._sets = [(replace(plan, evaluation=how), of_set) for how, of_set in each]
        self._run_folder, self._record, self._log, self._stop, self._peaks = folder, record, log, stop, peaks
        self._best = BestEvaluation(known)
        self._was_begun, self._warm_steps = "before" in known, 0 if plan.warm_start is None else plan.warm_start.steps
        # The weights before the first step are in no checkpoint of this run folder.
        self._begun_at = 0 if plan.extends is None else plan.extends.step or 0
        self._extended = None if plan.extends is None else Path(plan.extends.path).parents[1]
        self._measured_at: int | None = None

    def kept_step(self) -> int | None:
        """Returns the step whose checkpoint is kept and becomes the final model; None for the last step."""
        return self._best.step if self._how.keep_best else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluates the untrained policy. A resumed run did so before; an extended run has the earlier run's result."""
        if self._how.at_start and state.global_step == 0 and not self._was_begun:
            self._take("before", 0)
        elif self._extended is not None and self._log is not None:
            named = [(evaluation_file(how.name, 0), warm_start_file(how.name)) for how in self._how.sets]
            for file in chain.from_iterable(named):
                judged = _read_rows(self._extended, file)
                if judged is not None and _read_rows(self._run_folder, file) is None:
                    make_folder(self._run_folder, EVALUATION)
                    _write_rows(self._run_folder, file, judged)

    def evaluate_warm_start(self) -> None:
        """Evaluates the policy between the warm start and GRPO, if it was evaluated before."""
        if self._how.at_start:
            self._take(WARM_START, 0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluates every so many steps. By now the previous step is logged and saved.

        Raises Trained after enough evaluations without improvement.
        """
        every, step = self._how.every_steps, state.global_step
        if every == 0 or step == 0 or step % every != 0:
            return
        self._take("latest", step)
        why = self._best.why_over(self._how.stop_after, step, state.max_steps)
        if why is not None:
            ended = {"step": step, "max_steps": state.max_steps, "because": why}
            self._record.update_evaluation(ended_early=ended)
            raise Trained

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluates the trained policy, unless stop_after ended the training and just did so."""
        if self._stop.interrupted:
            return
        if self._measured_at != state.global_step:
            self._take("after", state.global_step)
        elif self._log is not None:
            for index, (plan, _) in enumerate(self._sets):
                name = self._how.sets[index].name if index else ""
                known = self._record.evaluation().get(OTHERS, {}).get(name, {}) if name else self._record.evaluation()
                self._record.update_evaluation(name, after=known.get("latest"), **self._turned(plan, state.global_step))
        if self._how.keep_best and self._log is not None:
            self._record.update_evaluation(cross_validated=self._cross_validate())
        for index, (_, rows) in enumerate(self._sets):
            if IMAGES in rows.column_names:
                of_text = {*rows_of_text(rows)}
                if shown := [row for row in range(len(rows)) if row not in of_text]:
                    self._take_blanked(index, shown, state.global_step)

    def _on_batch(self) -> None:
        self.guards.still("a batch of an evaluation")
        self._stop.stop_evaluation()

    def _take(self, moment: str, step: int) -> None:
        self._measured_at = step
        is_better = False
        for index in range(len(self._sets)):
            is_better = self._take_set(index, moment, step, is_better=is_better)

    def _take_set(self, index: int, moment: str, step: int, *, is_better: bool) -> bool:
        """Evaluates one set, and returns whether this step is the best so far, which the first set decides."""
        plan, rows = self._sets[index]
        name = self._how.sets[index].name
        started = time.perf_counter()
        with self._peaks.during("evaluation"):
            judged = evaluate(self._trainer, plan, rows, self._on_batch)
        figures = {"step": step, **summary(judged, plan)}
        is_warm = moment == WARM_START
        is_of_training = is_warm or step > self._begun_at
        figures |= {"warm_step": self._warm_steps} if is_warm else {}
        if index == 0:
            is_better = is_of_training and self._best.is_better(figures)
        seed = int(self._trainer.args.seed)
        if self._log is not None:
            figures["intervals"] = with_intervals(judged, plan, seed)
            before = _read_rows(self._run_folder, evaluation_file(name, 0)) if step > 0 or is_warm else None
            changed = None if before is None else change(before, judged, plan, seed)
            if changed is not None:
                figures["change"] = {"from_step": 0, **changed}
            warm = _read_rows(self._run_folder, warm_start_file(name)) if step > 0 and self._warm_steps else None
            changed = None if warm is None else change(warm, judged, plan, seed)
            if changed is not None:
                figures["change_since_warm_start"] = changed
        figures["seconds"] = round(time.perf_counter() - started, 3)
        self.seconds += figures["seconds"]
        if self._log is None:
            return is_better
        make_folder(self._run_folder, EVALUATION)
        _write_rows(self._run_folder, warm_start_file(name) if is_warm else evaluation_file(name, step), judged)
        event = {**figures, **({"decides": False} if index else {})}
        self._log.write("evaluation", **event)
        print(*event_lines({"event": "evaluation", **event}), sep="\n", flush=True)
        is_first = moment == (WARM_START if self._warm_steps else "before")  # what GRPO starts from
        if is_first and (alarm := zero_variance.of_evaluation(judged, plan, name)) is not None:
            self.guards.on_few_paid(alarm)
        moments: dict[str, Any] = {moment: figures, **({"latest": figures} if moment == "after" else {})}
        if is_of_training and (self._how.keep_best or self._how.stop_after is not None):
            chosen = {SINCE: self._best.since, CHOSEN_FROM: self._best.chosen_from} if index == 0 else {}
            moments |= {**chosen, **({BEST: figures} if is_better else {})}
        more = self._turned(plan, step) if moment == "after" else {}
        self._record.update_evaluation(name if index else "", **moments, **more)
        return is_better

    def _take_blanked(self, index: int, shown: list[int], step: int) -> None:
        """Evaluates the rows of a set that have images with grey ones: right answers did not need the image."""
        plan, rows = self._sets[index]
        name = self._how.sets[index].name
        started = time.perf_counter()
        with self._peaks.during("evaluation"):
            judged = evaluate(self._trainer, plan, WithGreyImages(rows), self._on_batch, shown)
        if self._log is not None:
            seed = int(self._trainer.args.seed)
            figures = {"step": step, **summary(judged, plan), "intervals": with_intervals(judged, plan, seed)}
            with_images = _read_rows(self._run_folder, evaluation_file(name, step))
            with_images = None if with_images is None else [answer for answer in with_images if answer.row in {*shown}]
            if with_images is not None and (by := change(judged, with_images, plan, seed)) is not None:
                figures["by_images"] = by
            print(f"with grey images {evaluation_line({'event': 'evaluation', **figures})}", flush=True)
            self._record.update_evaluation(name if index else "", blanked=figures)
        self.seconds += round(time.perf_counter() - started, 3)

    def _cross_validate(self) -> dict[str, Any] | None:
        """Measures the chosen step on rows that did not choose it; None without a choice, or if files are gone."""
        name, steps = self._how.name, self._best.chosen_from
        before = _read_rows(self._run_folder, evaluation_file(name, 0))
        files = {step: evaluation_file(name, step) if step else warm_start_file(name) for step in steps}
        read = {step: _read_rows(self._run_folder, file) for step, file in files.items()}
        evaluations = {step: judged for step, judged in read.items() if judged is not None}
        if len(evaluations) < max(2, len(read)):
            return None
        return cross_validated(evaluations, before, self._sets[0][0], int(self._trainer.args.seed))

    def _turned(self, plan: Plan, step: int) -> dict[str, Any]:
        """Compares the rows of a set between the untrained policy and this step."""
        assert plan.evaluation is not None
        before, after = (_read_rows(self._run_folder, evaluation_file(plan.evaluation.name, at)) for at in (0, step))
        return {} if before is None or after is None else turned(before, after, plan)


def _write_rows(folder: Path, file: str, judged: list[JudgedRow]) -> None:
    each = ({name: value for name, value in asdict(row).items() if value or name != "prefill"} for row in judged)
    lines = ((json.dumps(redact_value(row), ensure_ascii=False) + "\n").encode() for row in each)
    write_whole(folder, file, lines)


def _read_rows(folder: Path, file: str) -> list[JudgedRow] | None:
    """Returns the rows of an evaluation, None if there was none or its file was removed or damaged."""
    try:
        lines = read_bytes(folder, file, _LARGEST).splitlines()
        return [JudgedRow(**cast("dict[str, Any]", parse_json(line))) for line in lines]
    except (OSError, ValueError, TypeError):
        return None
