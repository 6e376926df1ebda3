"""Decides when guards check the training, and reports what they find."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.event_words import guard_line
from grpo_recipes.contract.metrics import (
    LEAST_STEPS,
    constant_rewards,
    number,
    reward_as_drawn,
    trends,
    without_variance,
)
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import gather_from_all, newest_names
from grpo_recipes.worker._shared.metrics import MetricsLog
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.callbacks.first_rewards import first_rewards, groups_per_step
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
from grpo_recipes.worker.model.real_losses import RealLosses
from grpo_recipes.worker.model.trained_tensors import fingerprints
from grpo_recipes.worker.survival.stall_monitor import StallMonitor

STEPS_FOR_AN_ANSWER = 20


class GuardCallback(TrainerCallback):  # type: ignore[misc]
    """Watches a training with the guards of its plan. Raises Refused on every process if one stops the run.

    It comes after the callbacks that evaluate and log, so evaluations are not part of a step. Call close() when the
    training is over, however it ended.
    """

    def __init__(self, trainer: Any, plan: Plan, record: Record, log: MetricsLog | None) -> None:
        self._trainer, self._plan, self._record, self._log = trainer, plan, record, log
        self._spoken: dict[str, dict[str, Any]] = {}  # by name, as in run.json
        self._before: dict[str, int] = {}
        self._lines: Lines | None = None
        self._has_said_rewards = False
        self._guards: dict[ModuleType, Any] = {}
        self._losses: RealLosses | None = None
        self._stalls: StallMonitor | None = None
        if self._action(no_progress) != "off":
            several = trainer.accelerator.num_processes > 1
            waits_s = float(trainer.args.ddp_timeout) if several else None
            self._stalls = StallMonitor(plan.guards, lambda: trainer.state.global_step + 1, waits_s)

    def still(self, what: str) -> None:
        """Reports that the run is busy with something other than a step, such as "an evaluation"."""
        if self._stalls is not None:
            self._record_late(self._stalls)
            self._stalls.still(what)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts watching. For a resumed run, replays the lines it logged before, without alarms."""
        self._guards = self._of_lines()
        before = self._record.guards()
        self._spoken = {entry["name"]: entry for entry in before if entry["first_step"] <= state.global_step}
        lines = Lines([reward.name for reward in self._plan.rewards])
        for logs in state.log_history:
            line = lines.line(logs, logs.get("step", 0))
            if line is not None:
                for guard in (guard for module, guard in self._guards.items() if getattr(module, "LOOKS_BACK", True)):
                    guard.look(line)
        self._lines = lines
        if self._action(not_finite) != "off":
            self._losses = RealLosses(self._trainer, self._on_broken)
        if no_movement in self._guards:
            self._before = fingerprints(self._trainer.model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts timing the step."""
        if self._stalls is not None:
            self._record_late(self._stalls)
            self._stalls.begin()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Checks the losses and the gradient before they change the weights."""
        alarm = None if self._losses is None else self._losses.found()
        if alarm is not None:
            self._speak(not_finite, alarm, state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stops timing the step, and checks the weights before a checkpoint or the final model is saved."""
        if self._stalls is not None:
            self._record_late(self._stalls)
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
        if line.step - line.steps < max(STEPS_FOR_AN_ANSWER, LEAST_STEPS * line.steps) <= line.step:
            self._say_unused_rewards(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints which guards and rewards had nothing to watch."""
        unseen = [module.NAME for module, guard in self._guards.items() if not guard.seen]
        self._record.update(guards_not_seen=unseen)
        if unseen and self._trainer.is_world_process_zero():
            print(f"unused guards  {', '.join(unseen)}: the figures they watch were never logged", flush=True)
        if not self._has_said_rewards:
            self._say_unused_rewards(state)

    def _say_unused_rewards(self, state: Any) -> None:
        """Prints which rewards returned None alone, and which of several gave every completion the same value."""
        self._has_said_rewards = True
        if not self._trainer.is_world_process_zero():
            return
        if names := [] if self._lines is None else self._lines.without_answer():
            print(f"unused rewards  {', '.join(names)}: so far they returned None for every completion", flush=True)
        if constant := ", ".join(constant_rewards(trends(state.log_history))):
            print(f"constant rewards  {constant} for every completion of {state.global_step} steps", flush=True)

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
        builders: dict[ModuleType, Callable[[], Guard] | None] = {
            zero_variance: lambda: zero_variance.ZeroVariance(
                guards, groups_per_step(trainer), first_rewards(trainer, self._plan)
            ),
            wasted_groups: lambda: wasted_groups.WastedGroups(guards),
            truncation: lambda: truncation.Truncation(guards, trainer.args.max_completion_length),
            no_movement: lambda: no_movement.NoMovement(guards, self._have_moved),
            far_from_sampler: far_from_sampler.FarFromSampler,
            kl_rise: kl_rise.KlRise if trainer.args.beta > 0 else None,
            entropy_collapse: entropy_collapse.EntropyCollapse,
            memory_growth: lambda: memory_growth.MemoryGrowth(lambda own: gather_from_all(trainer, [own])),
            unused_tools: (lambda: unused_tools.UnusedTools(guards)) if has_tools else None,
            failing_tools: failing_tools.FailingTools if has_tools else None,
            slow_tools: slow_tools.SlowTools if has_tools else None,
            failing_judge: lambda: failing_judge.FailingJudge(guards),
        }
        return {module: build() for module, build in builders.items() if build and self._action(module) != "off"}

    def on_few_paid(self, alarm: Alarm) -> None:
        """Notes that almost no held-out row earns a reward before the first step."""
        if self._action(zero_variance) != "off":
            self._speak(zero_variance, alarm, 0)

    def _have_moved(self) -> bool:
        now = fingerprints(self._trainer.model)
        changed, self._before = now != self._before, now
        return any(gather_from_all(self._trainer, [changed]))

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
        spoken = self._note(module, alarm.value, action, step)
        is_said = action == "stop" or action != before or spoken["count"] == 10 ** (len(str(spoken["count"])) - 1)
        words = self._log_event(spoken, alarm) if is_said else ""
        if action == "stop":
            if not is_alone:
                self._trainer.accelerator.wait_for_everyone()  # rank 0 must record it before another rank exits
            raise Refused(refusal(module.NAME, module.ID, step, alarm))
        if is_said and self._trainer.is_world_process_zero():
            print(words, flush=True)

    def _note(self, module: ModuleType, value: float, action: str, step: int) -> dict[str, Any]:
        """Records an alarm in run.json and returns its entry. value: this alarm's; count: how often the guard fired."""
        before = self._spoken.get(module.NAME, {"first_step": step, "count": 0})
        self._spoken[module.NAME] = spoken = {
            "id": module.ID,
            "name": module.NAME,
            "action": action,
            "first_step": before["first_step"],
            "last_step": step,
            "count": before["count"] + 1,
            "value": value,
        }
        self._record.update(step=self._trainer.state.global_step, guards=list(self._spoken.values()))
        return spoken

    def _log_event(self, spoken: dict[str, Any], alarm: Alarm) -> str:
        """Writes the alarm to metrics.jsonl, and returns its line for the terminal."""
        event = {name: spoken[name] for name in ("id", "name", "action", "value", "count")}
        finding = alarm.finding
        event |= {"message": finding.message, "because": list(finding.because), "fix": finding.fix}
        if self._log is not None:
            self._log.write("guard", spoken["last_step"], **event)
        return guard_line({"step": spoken["last_step"], **event})

    def _record_late(self, stalls: StallMonitor) -> None:
        """Records that the activity which ends now was late; the monitor's program has already reported it."""
        if (seconds := stalls.late_s()) is not None:
            action = self._action(no_progress)
            step = max(self._trainer.state.global_step, 1)
            spoken = self._note(no_progress, round(seconds, 1), "warn" if action == "stop" else action, step)
            if self._log is not None:
                self._log.on_event("guard", step, {"name": spoken["name"], "value": spoken["value"]})


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
