"""Reports the figures of each step on stdout, in metrics.jsonl and, for the last step, in run.json. Rank 0 only.

This includes the time per step, the share of each phase, and the time left.
"""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.event_words import step_line
from grpo_recipes.contract.metric_names import PHASE_SECONDS
from grpo_recipes.contract.metrics import number
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import newest_names, on_any
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.callbacks.time_advice import advise
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.user_code.isolation import end_if_fork

TOLD_EVERY = 20
_REMEMBERED = 100
_LEAST_SHARE = 0.005


class StepTimes(TrainerCallback):  # type: ignore[misc]
    """Times optimizer steps without evaluations; steps that share a generation are timed together.

    The first steps are slower (kernels are compiled, memory is allocated) and count only while there are no others.
    not_training_s: seconds so far that were not spent on steps.
    """

    def __init__(self, plan: Plan, record: Record, peaks: PhasePeaks, not_training_s: Callable[[], float]) -> None:
        self._plan, self._record, self._peaks, self._not_training_s = plan, record, peaks, not_training_s
        self._sharing = 1
        self._steps = 0
        self._began = 0.0
        self._before: dict[str, float] = {}
        self._timed: deque[float] = deque(maxlen=_REMEMBERED)
        self._spent: deque[dict[str, float]] = deque(maxlen=_REMEMBERED)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts the clock."""
        self._sharing = steps_of_a_generation(args)
        self._began, self._before = self._now(), self._peaks.seconds()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Records the time of the steps that shared a generation, after the last of them."""
        self._steps += 1
        if self._steps % self._sharing:
            return
        now, seconds = self._now(), self._peaks.seconds()
        if self._steps == 2 * self._sharing:
            self._timed.clear()
            self._spent.clear()
        self._timed.append((now - self._began) / self._sharing)
        self._spent.append({phase: seconds.get(phase, 0.0) - self._before.get(phase, 0.0) for phase in PHASE_SECONDS})
        self._began, self._before = now, seconds
        if self._steps % TOLD_EVERY == 0:
            self._tell(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the times to the record, without a time left: an interrupted run may never resume."""
        self._tell(state, is_over=True)

    def seconds_of_a_step(self) -> float | None:
        """Returns the median of the last hundred steps without the first ones; None before a step ended."""
        return statistics.median(self._timed) if self._timed else None

    def seconds_left(self, state: Any) -> float | None:
        """Returns the seconds until the last step ends, without evaluations and checkpoints."""
        each = self.seconds_of_a_step()
        return None if each is None else each * (state.max_steps - state.global_step)

    def _shares(self) -> dict[str, float]:
        """Returns each phase's share of the remembered steps, largest first, without shares below 0.5 %."""
        spent = {phase: sum(seconds[phase] for seconds in self._spent) for phase in PHASE_SECONDS}
        total = sum(spent.values())
        shares = {
            phase: round(seconds / total, 4) for phase, seconds in spent.items() if seconds > _LEAST_SHARE * total
        }
        return dict(sorted(shares.items(), key=lambda share: -share[1]))

    def _now(self) -> float:
        return time.perf_counter() - self._not_training_s()

    def _tell(self, state: Any, *, is_over: bool = False) -> None:
        each, left = self.seconds_of_a_step(), self.seconds_left(state)
        if each is None or left is None:
            return
        shares = self._shares()
        end = datetime.now(UTC) + timedelta(seconds=left)
        say = self._record.update if is_over else self._record.note
        say(
            duration={
                "steps": self._steps,
                "seconds_per_step": round(each, 4),
                "shares": shares,
                "advice": advise(self._plan, each, shares),
                "estimated_end": end.isoformat(timespec="seconds") if left and not is_over else None,
            }
        )


def steps_of_a_generation(arguments: Any) -> int:
    """Returns how many optimizer steps train on one generation, at least 1.

    Source: `_prepare_inputs` of trl 0.14.0 to 1.16.0.
    """
    iterations: int = getattr(arguments, "num_iterations", 1)
    batches = getattr(arguments, "steps_per_generation", None)
    if batches is None:
        return iterations
    return math.ceil(int(batches) * iterations / int(arguments.gradient_accumulation_steps))


class ProgressLines(TrainerCallback):  # type: ignore[misc]
    """Writes what the trainer logs, and the peak memory of this process since the line before."""

    def __init__(self, plan: Plan, record: Record, log: MetricsLog, times: StepTimes, peaks: PhasePeaks) -> None:
        self.last: dict[str, Any] = {}
        self._plan, self._record, self._log, self._times, self._peaks = plan, record, log, times, peaks
        self._rewards = [reward.name for reward in plan.rewards]
        self._began = 0.0
        self._before: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints the number of steps, and the step that a resumed run starts from."""
        before = self._record.read()
        self._began = time.perf_counter() - (number(before, "train_wall_s") or 0.0)
        launches = int(number(before, "launches") or 0) + 1
        self._record.update(step=state.global_step, max_steps=state.max_steps, launches=launches, train_cpu_s=None)
        lines = before.get("resumed")
        more = {"resumed": lines} if lines else {}
        self._log.write("start", state.global_step, max_steps=state.max_steps, **more)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        """Writes a step, or all steps since the previous line. The trainer's final log has no loss and is skipped."""
        if "loss" not in logs:
            return
        held = {"memory_bytes": self._peaks.lately()}
        seconds, before = self._peaks.seconds(), self._before
        spent = {phase: seconds.get(phase, 0.0) - before.get(phase, 0.0) for phase in PHASE_SECONDS}
        spent = {PHASE_SECONDS[phase]: round(part, 4) for phase, part in spent.items() if part}
        self._before = seconds
        self.last = {**newest_names(logs, self._rewards), **held, **spent}
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
        """Prints the checkpoint's name. It is complete by now."""
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._record.update(step=state.global_step, checkpoint=str(checkpoint))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the last figures to the record."""
        self._record.update(step=state.global_step, metrics=self.last)


class Stopped(Exception):
    """A signal asked the run to stop during an evaluation, at a step that it can resume from."""


class InterruptionCallback(TrainerCallback):  # type: ignore[misc]
    """Ends the training with a checkpoint, at the end of a generation, once any rank was asked to stop.

    A checkpoint that is due earlier is written there as well. It comes before callbacks that look at what is saved.
    An evaluation ends between two batches if the run can resume from its step.
    """

    def __init__(self, request: Interruption, trainer: Any) -> None:
        self.interrupted = False
        self._request = request
        self._trainer = trainer
        self._is_due = False
        self._resumable_step: int | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Notes the step from which the run starts."""
        self._resumable_step = state.global_step

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Notes the step of the newest checkpoint."""
        self._resumable_step = state.global_step

    def stop_evaluation(self) -> None:
        """Raises Stopped if any rank was asked to stop, and a resumed run repeats the evaluation."""
        state = self._trainer.state
        is_resumable = state.global_step == self._resumable_step and state.global_step < state.max_steps
        if is_resumable and any(on_any(self._trainer, self._request.requested)):
            self.interrupted = True
            raise Stopped

    def is_asked(self) -> bool:
        """Whether any rank was asked to stop, which interrupts the run. All ranks must call it."""
        self.interrupted = any(on_any(self._trainer, self._request.requested))
        return self.interrupted

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Asks all ranks. A signal during the last steps has no effect, since the run then just ends."""
        end_if_fork()
        if state.global_step >= state.max_steps:
            return control
        self._is_due |= control.should_save
        control.should_save = is_used_up(self._trainer) and self._is_due
        if is_used_up(self._trainer):
            self._is_due = False
            if any(on_any(self._trainer, self._request.requested)):
                self.interrupted = True
                control.should_save = True
                control.should_training_stop = True
        return control


def is_used_up(trainer: Any) -> bool:
    """Whether the step that just ended was the last of its generation, so that the next one generates.

    A checkpoint is exact only there: it does not contain the completions still to be trained on, so a run resumed in
    between would generate again and get different weights.
    A process begins with a generation, so its own batches are counted. Releases before num_iterations generate for each
    batch; the first ones with it use the step number.
    Source: `_prepare_inputs` of trl 0.14.0 to 1.16.0.
    """
    iterations = getattr(trainer.args, "num_iterations", 1)
    batches = getattr(trainer.args, "steps_per_generation", None)
    if batches is None:
        return bool(trainer.state.global_step % iterations == 0)
    return bool(trainer.seams.value("_step") % (batches * iterations) == 0)
