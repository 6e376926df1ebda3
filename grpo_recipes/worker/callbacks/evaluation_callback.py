"""When the held-out measure is taken, and where its figures go."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from transformers import TrainerCallback

from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.files.folder_files import make_folder, read_bytes, write_whole
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact_value
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.callbacks.interruption_callback import InterruptionCallback
from grpo_recipes.worker.completions.evaluation import JudgedRow, changes, evaluate, summary
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks

EVALUATION = "evaluation"
_LARGEST = 4 << 30


class EvaluationCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates at the start, every so many steps, and after the last step unless the run was interrupted.

    Each row with its answer goes to evaluation/step-<step>.jsonl of the run folder, the means to
    metrics.jsonl and run.json. seconds: how long all evaluations took so far. on_batch: called before each batch.
    """

    def __init__(
        self,
        trainer: Any,
        plan: Plan,
        rows: Any,
        folder: Path,
        record: Record,
        log: MetricsLog | None,
        stop: InterruptionCallback,
        peaks: PhasePeaks,
    ) -> None:
        self.seconds = 0.0
        self.on_batch: Callable[[], None] = lambda: None
        self._trainer, self._plan, self._rows = trainer, plan, rows
        self._run_folder, self._record, self._log, self._stop, self._peaks = folder, record, log, stop, peaks

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measures the untrained policy; a resumed run has done so."""
        assert self._plan.evaluation is not None
        if self._plan.evaluation.at_start and state.global_step == 0:
            self._take("before", 0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measures after every so many steps; here, since the step before is logged and saved by now."""
        assert self._plan.evaluation is not None
        every = self._plan.evaluation.every_steps
        if every > 0 and state.global_step > 0 and state.global_step % every == 0:
            self._take("latest", state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measures the trained policy."""
        if not self._stop.interrupted:
            self._take("after", state.global_step)

    def _take(self, moment: str, step: int) -> None:
        started = time.perf_counter()
        with self._peaks.during("evaluation"):
            judged = evaluate(self._trainer, self._plan, self._rows, self.on_batch)
        seconds = time.perf_counter() - started
        self.seconds += seconds
        if self._log is None:
            return
        make_folder(self._run_folder, EVALUATION)
        _write_rows(self._run_folder, step, judged)
        figures = {"step": step, **summary(judged, self._plan), "seconds": round(seconds, 3)}
        self._log.write("evaluation", **figures)
        _print(figures)
        before = _read_rows(self._run_folder, 0) if moment == "after" else None
        if before is not None and len(before) == len(judged):
            self._record.update_evaluation(after=figures, **changes(before, judged, self._plan))
        else:
            self._record.update_evaluation(**{moment: figures})


def _print(figures: dict[str, Any]) -> None:
    means = {"reward": figures["reward"], **figures["rewards"]}
    words = [f"{name} {'none' if value is None else format(value, '.3f')}" for name, value in means.items()]
    kind = "greedy" if figures["greedy"] else "sampled"
    print(
        f"evaluation at step {figures['step']}  {'  '.join(words)}  ({figures['count']} rows, {kind})",
        flush=True,
    )


def _write_rows(folder: Path, step: int, judged: list[JudgedRow]) -> None:
    lines = ((json.dumps(redact_value(asdict(row)), ensure_ascii=False) + "\n").encode() for row in judged)
    write_whole(folder, _file(step), lines)


def _file(step: int) -> str:
    return f"{EVALUATION}/step-{step}.jsonl"


def _read_rows(folder: Path, step: int) -> list[JudgedRow] | None:
    """The rows of an evaluation, None where there was none or somebody removed or damaged them."""
    try:
        lines = read_bytes(folder, _file(step), _LARGEST).splitlines()
        return [JudgedRow(**cast("dict[str, Any]", parsed(line))) for line in lines]
    except (OSError, ValueError, TypeError):
        return None
