"""Decides when guards check the training, and reports what they find."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from transformers import TrainerCallback
from trl import GRPOTrainer

from grpo_recipes.contract.event_words import guard_line
from grpo_recipes.contract.exits import EXIT_STOPPED
from grpo_recipes.contract.metrics import number, reward_as_drawn, without_variance
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.library import gathered, newest_names
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker.guards import (
    entropy_collapse,
    failing_judge,
    failing_tools,
    far_from_sampler,
    kl_rise,
    memory_growth,
    no_movement,
    no_progress,
    not_finite,
    slow_tools,
    truncation,
    unused_tools,
    wasted_groups,
    zero_variance,
)
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, refusal
from grpo_recipes.worker.survival.stall_monitor import StallMonitor
from grpo_recipes.worker.trainer.real_losses import RealLosses
from grpo_recipes.worker.trainer.trained_tensors import fingerprints

STEPS_FOR_AN_ANSWER = 20


class GuardCallback(TrainerCallback):  # type: ignore[misc]
    """Watches a training with the guards of its plan. Raises Refused on every process if one stops the run.

    It comes after the callbacks that evaluate and log, so evaluations are not part of a step. Call close() when the
    training is over, however it ended.
    """

    def __init__(
        self,
        trainer: Any,
        plan: Plan,
        folder: Path,
        record: Record,
        log: MetricsLog | None,
    ) -> None:
        self._trainer, self._plan, self._record, self._log = trainer, plan, record, log
        self._spoken: dict[str, dict[str, Any]] = {}  # by name, as in run.json
        self._before: dict[str, int] = {}
        self._lines: Lines | None = None
        self._guards: dict[ModuleType, Any] = {}
        self._losses: RealLosses | None = None
        self._stalls: StallMonitor | None = None
        if self._action(no_progress) != "off":
            several = trainer.accelerator.num_processes > 1
            waits_s = float(trainer.args.ddp_timeout) if several else None
            rank = trainer.accelerator.process_index
            self._stalls = StallMonitor(plan.guards, folder, rank, self._on_late, waits_s)

    def still(self, what: str) -> None:
        """Reports that the run is busy with something other than a step, such as "an evaluation"."""
        if self._stalls is not None:
            self._stalls.still(what)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts watching. For a resumed run, replays the lines it logged before, without alarms."""
        self._guards = self._of_lines()
        before = self._record.guards()
        self._spoken = {one["name"]: one for one in before if one["first_step"] <= state.global_step}
        lines = Lines([reward.name for reward in self._plan.rewards])
        for logs in state.log_history:
            line = lines.line(logs, logs.get("step", 0))
            if line is not None:
                for guard in (one for module, one in self._guards.items() if getattr(module, "LOOKS_BACK", True)):
                    guard.look(line)
        self._lines = lines
        if self._action(not_finite) != "off":
            self._losses = RealLosses(self._trainer, self._on_broken)
        if no_movement in self._guards:
            self._before = fingerprints(self._trainer.model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts timing the step."""
        if self._stalls is not None:
            self._stalls.begin()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Checks the losses and the gradient before they change the weights."""
        alarm = None if self._losses is None else self._losses.found()
        if alarm is not None:
            self._speak(not_finite, alarm, state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stops timing the step, and checks the weights before a checkpoint or the final model is saved."""
        if self._stalls is not None:
            self._stalls.end()
        if self._losses is not None and (control.should_save or state.global_step >= state.max_steps):
            alarm = self._losses.found_in_weights()
            if alarm is not None:
                self._speak(not_finite, alarm, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        """Passes the logged figures to the guards. All processes see the same figures, so they decide the same."""
        line = None if self._lines is None else self._lines.line(logs, state.global_step)
        if line is None:
            return
        for module, guard in self._guards.items():
            alarm = guard.look(line)
            if alarm is not None:
                self._speak(module, alarm, line.step)
        if line.step - line.steps < STEPS_FOR_AN_ANSWER <= line.step:
            self._say_without_answer()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints which guards and rewards had nothing to watch."""
        unseen = [module.NAME for module, guard in self._guards.items() if not guard.seen]
        self._record.update(guards_not_seen=unseen)
        if unseen and self._trainer.is_world_process_zero():
            print(f"unused guards  {', '.join(unseen)}: the figures they watch were never logged", flush=True)
        if state.global_step < STEPS_FOR_AN_ANSWER:
            self._say_without_answer()

    def _say_without_answer(self) -> None:
        names = [] if self._lines is None else self._lines.without_answer()
        if names and self._trainer.is_world_process_zero():
            print(f"unused rewards  {', '.join(names)}: so far they returned None for every completion", flush=True)

    def memory(self) -> dict[str, Any]:
        """Returns the guards' state that the log does not contain, for a checkpoint."""
        guard = self._guards.get(no_movement)
        return {} if guard is None else {"no_movement": guard.memory(), "before": self._before}

    def remember(self, memory: dict[str, Any]) -> None:
        """Restores what memory() returned. Call it after on_train_begin."""
        guard = self._guards.get(no_movement)
        if guard is not None and memory:
            guard.remember(memory["no_movement"])
            self._before = memory["before"]

    def close(self) -> None:
        """Stops watching losses. Saving at the end is still timed."""
        self.still("the end of the training")
        if self._losses is not None:
            self._losses.leave()

    def _of_lines(self) -> dict[ModuleType, Guard]:
        """Returns the active guards that read logged lines, by module; two guards do not read lines."""
        guards, trainer, has_tools = self._plan.guards, self._trainer, calls_tools(self._plan)
        has_judge = any(reward.kind == "judge" for reward in self._plan.rewards)
        builders: dict[ModuleType, Callable[[], Guard] | None] = {
            zero_variance: lambda: zero_variance.ZeroVariance(guards, groups_per_step(trainer)),
            wasted_groups: lambda: wasted_groups.WastedGroups(guards),
            truncation: lambda: truncation.Truncation(guards, trainer.args.max_completion_length),
            no_movement: lambda: no_movement.NoMovement(guards, self._have_moved),
            far_from_sampler: far_from_sampler.FarFromSampler,
            kl_rise: kl_rise.KlRise if trainer.args.beta > 0 else None,
            entropy_collapse: entropy_collapse.EntropyCollapse,
            memory_growth: lambda: memory_growth.MemoryGrowth(lambda own: gathered(trainer, [own])),
            unused_tools: (lambda: unused_tools.UnusedTools(guards)) if has_tools else None,
            failing_tools: failing_tools.FailingTools if has_tools else None,
            slow_tools: slow_tools.SlowTools if has_tools else None,
            failing_judge: (lambda: failing_judge.FailingJudge(guards)) if has_judge else None,
        }
        return {module: build() for module, build in builders.items() if build and self._action(module) != "off"}

    def _have_moved(self) -> bool:
        now = fingerprints(self._trainer.model)
        changed, self._before = now != self._before, now
        return any(gathered(self._trainer, [changed]))

    def _action(self, module: ModuleType) -> str:
        return str(getattr(self._plan.guards, module.NAME))  # off, note, warn or stop

    def _on_broken(self, alarm: Alarm) -> None:
        """Handles a loss or gradient that is not finite, perhaps only on this process, which then ends the others."""
        self._speak(not_finite, alarm, self._trainer.state.global_step + 1, is_alone=True)

    def _speak(self, module: ModuleType, alarm: Alarm, step: int, *, is_alone: bool = False) -> None:
        """Records an alarm, and prints it the first, tenth, hundredth time. Raises Refused."""
        before, action = self._spoken.get(module.NAME, {}).get("action"), self._action(module)
        if alarm.is_note:
            action = "warn" if before == "warn" else "note"  # the worse action stays in run.json
        spoken = self._noted(module, alarm, action, step)
        is_said = action == "stop" or action != before or spoken["count"] == 10 ** (len(str(spoken["count"])) - 1)
        words = self._log_event(spoken, alarm) if is_said else ""
        if action == "stop":
            if not is_alone:
                self._trainer.accelerator.wait_for_everyone()  # rank 0 must record it before another rank exits
            raise Refused(refusal(module.NAME, module.ID, step, alarm))
        if is_said and self._trainer.is_world_process_zero():
            print(words, flush=True)

    def _noted(self, module: ModuleType, alarm: Alarm, action: str, step: int) -> dict[str, Any]:
        """Records an alarm in run.json and returns its entry. value: this alarm's; count: how often the guard fired."""
        before = self._spoken.get(module.NAME, {"first_step": step, "count": 0})
        self._spoken[module.NAME] = spoken = {
            "id": module.ID,
            "name": module.NAME,
            "action": action,
            "first_step": before["first_step"],
            "last_step": step,
            "count": before["count"] + 1,
            "value": alarm.value,
        }
        self._record.update(step=self._trainer.state.global_step, guards=list(self._spoken.values()))
        return spoken

    def _log_event(self, spoken: dict[str, Any], alarm: Alarm) -> str:
        """Writes the alarm to metrics.jsonl, and returns its line for the terminal."""
        event = {name: spoken[name] for name in ("id", "name", "action", "value", "count")}
        found = alarm.finding
        event |= {"message": found.message, "because": list(found.because), "fix": found.fix}
        if self._log is not None:
            self._log.write("guard", spoken["last_step"], **event)
        return guard_line({"step": spoken["last_step"], **event})

    def _on_late(self, alarm: Alarm, is_last: bool) -> None:
        """Runs in the monitor's thread while the main thread hangs. It cannot raise there, so it ends the process."""
        action = self._action(no_progress)
        is_end = is_last and action == "stop"
        if is_last and not is_end:
            return
        step = self._trainer.state.global_step + 1
        spoken = self._noted(no_progress, alarm, "stop" if is_end else "warn" if action == "stop" else action, step)
        words = self._log_event(spoken, alarm)
        if not is_end:
            print(words, flush=True)
            return
        stopped = Refused(refusal(no_progress.NAME, no_progress.ID, step, alarm))
        self._record.end("stopped", EXIT_STOPPED, stopped)
        print(f"error: {stopped}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(EXIT_STOPPED)


# The lines of figures that guards read, built from what the trainer logs.


class Lines:
    """Builds lines that know how many steps they cover. Begins after `step`."""

    def __init__(self, rewards: list[str], step: int = 0) -> None:
        self._rewards, self._step = rewards, step
        self._answered: dict[str, bool] = {}

    def line(self, logs: Mapping[str, Any], step: int) -> Line | None:
        """Returns the line of one log; None for the log at the end of the training, and for a step already logged."""
        if "loss" not in logs or step <= self._step:
            return None
        steps, self._step = step - self._step, step
        named = newest_names(dict(logs), self._rewards)
        figures = {name: float(value) for name in named if (value := number(named, name)) is not None}
        for name in named:
            if name.startswith("rewards/") and name.endswith("/mean"):
                reward = name.removeprefix("rewards/").removesuffix("/mean")
                self._answered[reward] = self._answered.get(reward, False) or name in figures
        if (reward_drawn := reward_as_drawn(figures)) is not None:
            figures["reward"] = reward_drawn
        return Line(step, steps, figures, without_variance(figures))

    def without_answer(self) -> list[str]:
        """Returns the rewards without a single number so far: they returned None for every completion."""
        return [name for name, is_answered in self._answered.items() if not is_answered]


def groups_per_step(trainer: Any) -> int:
    """Returns the prompts per optimizer step over all processes."""
    arguments = trainer.args
    size: int = arguments.per_device_train_batch_size * trainer.accelerator.num_processes
    size *= arguments.gradient_accumulation_steps
    # The oldest release counts batches in prompts, and has no sampler that repeats them.
    is_in_prompts = "_get_train_sampler" not in vars(GRPOTrainer)
    return max(1, size if is_in_prompts else size // arguments.num_generations)
