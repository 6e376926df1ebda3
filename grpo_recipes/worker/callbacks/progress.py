"""The figures of each step: on stdout, in metrics.jsonl, the last ones in run.json. Rank 0 only.

Among them how long steps take by the clock, which share of it is generation, and how long the rest will take.
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
from grpo_recipes.worker._shared.inputs import Clock
from grpo_recipes.worker._shared.library import newest_names, on_any
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.user_code.contained import end_if_fork

TOLD_EVERY = 20
_REMEMBERED = 100


class StepTimes(TrainerCallback):  # type: ignore[misc]
    """Times optimizer steps, evaluations left out; those that share a generation are timed as one.

    The first ones are slower than the rest, by kernels that are compiled and memory that is taken, and count only
    while there are no others. not_training_s: seconds so far that were not spent on steps.
    """

    def __init__(self, trainer: Any, record: Record, not_training_s: Callable[[], float]) -> None:
        self._record, self._not_training_s = record, not_training_s
        self._generation = _watched(trainer)
        self._sharing = 1
        self._steps = 0
        self._began = (0.0, 0.0)
        self._timed: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts the clock."""
        self._sharing = steps_of_a_generation(args)
        self._began = self._now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Notes the steps that shared a generation, when the last of them ends."""
        self._steps += 1
        if self._steps % self._sharing:
            return
        now = self._now()
        spent, generating = now[0] - self._began[0], now[1] - self._began[1]
        if self._steps == 2 * self._sharing:
            self._timed.clear()
        self._timed.append((spent / self._sharing, generating / self._sharing))
        self._began = now
        if self._steps % TOLD_EVERY == 0:
            self._tell(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leaves the figures in the record; whether a run that was interrupted goes on is not known."""
        self._tell(state, is_over=True)

    def seconds_of_a_step(self) -> float | None:
        """The median of the newest hundred steps after the first ones; None before a step ended."""
        return statistics.median(spent for spent, _ in self._timed) if self._timed else None

    def seconds_left(self, state: Any) -> float | None:
        """Seconds until the last step has ended, evaluations and checkpoints not counted."""
        each = self.seconds_of_a_step()
        return None if each is None else each * (state.max_steps - state.global_step)

    def _now(self) -> tuple[float, float]:
        generating = 0.0 if self._generation is None else self._generation.seconds
        return time.perf_counter() - self._not_training_s(), generating

    def _tell(self, state: Any, *, is_over: bool = False) -> None:
        each, left = self.seconds_of_a_step(), self.seconds_left(state)
        if each is None or left is None:
            return
        share = None
        if self._generation is not None:
            share = min(1.0, sum(part for _, part in self._timed) / sum(spent for spent, _ in self._timed))
        end = datetime.now(UTC) + timedelta(seconds=left)
        say = self._record.update if is_over else self._record.note
        say(
            duration={
                "steps": self._steps,
                "seconds_per_step": round(each, 4),
                "generation_share": share and round(share, 4),
                "estimated_end": end.isoformat(timespec="seconds") if left and not is_over else None,
            }
        )


def steps_of_a_generation(arguments: Any) -> int:
    """Optimizer steps that train on one generation, at least 1. Source: `_prepare_inputs` of trl 0.14.0 to 1.16.0."""
    iterations: int = getattr(arguments, "num_iterations", 1)
    batches = getattr(arguments, "steps_per_generation", None)
    if batches is None:
        return iterations
    return math.ceil(int(batches) * iterations / int(arguments.gradient_accumulation_steps))


def _watched(trainer: Any) -> Clock | None:
    """Seconds that TRL waited for completions, with weights handed to vLLM before.

    None where this release has no method of its own for that, `_generate`; source: trl 1.16.0, trainer/grpo_trainer.py.
    """
    generate = getattr(trainer, "_generate", None)
    if generate is None:
        return None
    clock = Clock()
    trainer._generate = clock.around(generate)
    return clock


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
        """Writes a step, or the steps since the line before; what the trainer logs at its end has no loss."""
        if "loss" not in logs:
            return
        held = {"memory_bytes": self._peaks.lately()}
        seconds = self._peaks.seconds
        spent = {name: round(seconds[phase], 4) for phase, name in PHASE_SECONDS.items() if phase in seconds}
        seconds.clear()
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
        """Names the checkpoint, which is whole by now."""
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self._record.update(step=state.global_step, checkpoint=str(checkpoint))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leaves the last figures in the record."""
        self._record.update(step=state.global_step, metrics=self.last)


# The training ends with a checkpoint when any rank was asked to stop, and checkpoints come where they are exact.


class InterruptionCallback(TrainerCallback):  # type: ignore[misc]
    """Ends the training with a checkpoint where a generation is used up after any rank was asked to stop.

    A checkpoint that is due between is written there, too. It comes before callbacks that look at what is saved.
    """

    def __init__(self, request: Interruption, trainer: Any) -> None:
        self.interrupted = False
        self._request = request
        self._trainer = trainer
        self._is_due = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Asks all ranks; a signal that comes in the last steps changes nothing, since the run then just ends."""
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


# The steps that train on the completions of one generation.
#
# A checkpoint is exact only where they end: the completions that are still to be trained on are in none, so a run that
# is resumed from a step between generates anew, and comes to other weights.


def is_used_up(trainer: Any) -> bool:
    """Whether the step that has just ended was the last one of its generation, so that the next one generates.

    A process begins with a generation, so its own batches are counted. The releases before num_iterations generate for
    each batch; the first ones with it go by the number of the step.
    Source: `_prepare_inputs` of trl 0.14.0 to 1.16.0.
    """
    iterations = getattr(trainer.args, "num_iterations", 1)
    batches = getattr(trainer.args, "steps_per_generation", None)
    if batches is None:
        return bool(trainer.state.global_step % iterations == 0)
    return bool(trainer._step % (batches * iterations) == 0)
