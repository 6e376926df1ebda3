"""The figures of each step: on stdout, in metrics.jsonl, the last ones in run.json. Rank 0 only."""

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.event_words import step_line
from grpo_recipes.contract.metrics import number
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import newest_names
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.callbacks.step_times import StepTimes
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks


class ProgressLines(TrainerCallback):  # type: ignore[misc]
    """Writes what the trainer logs, and the most bytes that this process held since the line before it."""

    def __init__(self, plan: Plan, record: Record, log: MetricsLog, times: StepTimes, peaks: PhasePeaks) -> None:
        self.last: dict[str, Any] = {}
        self._plan, self._record, self._log, self._times, self._peaks = plan, record, log, times, peaks
        self._rewards = [reward.name for reward in plan.rewards]
        self._began = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Says of how many steps the run is, and from which one it goes on."""
        before = self._record.read()
        self._began = time.perf_counter() - (number(before, "train_wall_s") or 0.0)
        launches = int(number(before, "launches") or 0) + 1
        self._record.update(step=state.global_step, max_steps=state.max_steps, launches=launches, train_cpu_s=None)
        said = before.get("resumed")
        more = {"resumed": said} if said else {}
        self._log.write("start", state.global_step, max_steps=state.max_steps, **more)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        """Writes a step; what the trainer logs when it ends has no loss and is not one."""
        if "loss" not in logs:
            return
        self.last = {**newest_names(logs, self._rewards), "memory_bytes": self._peaks.lately()}
        self._log.write("step", state.global_step, **{key: value for key, value in self.last.items() if key != "step"})
        words = step_line({**self.last, "step": state.global_step}, state.max_steps, self._times.seconds_left(state))
        print(words, flush=True)
        self._record.note(
            step=state.global_step,
            metrics=self.last,
            memory=self._peaks.record(self._plan),
            train_wall_s=round(time.perf_counter() - self._began, 3),
        )

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Names the checkpoint, which is whole by now."""
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._record.update(step=state.global_step, checkpoint=str(checkpoint))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leaves the last figures in the record."""
        self._record.update(step=state.global_step, metrics=self.last)
