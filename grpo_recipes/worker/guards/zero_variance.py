"""Since the start, every group's completions had equal rewards, so the model learns nothing.

GRPO compares the completions of one prompt with each other. If all have the same reward, their advantages are zero and
so is the gradient: the run looks healthy and costs as much as any other, but the model does not change. The usual
causes are a constant reward (a pattern that never matches, an answer column in a form that the reward does not expect)
and prompts so hard that no completion is ever right.

Threshold: guards.zero_variance_groups groups from the first step, 256, and at least 10 optimizer steps. The guard
counts groups because a task with one right completion in 100 leaves a group of 8 without variance 92 times in 100: 256
such groups in a row happen once in 10^9 runs. With one in 1000 they happen once in 8 runs, and then 2048 completions
taught nothing. A run in which any group has varied is never stopped: once a task is learned, all rewards are equal
because all are right. Signal: groups_without_variance is 1, so the weighted sums of each group are equal by exact
arithmetic or in float32, on every release and with every scaling of rewards. TRL's own figure, frac_reward_zero_std,
mistakes a rounded mean for variance, for example with weights 1.0 and 0.2. A reward of 0 or 1 plus a constant 1e9
varies, but float32 cannot represent the difference, so TRL learns nothing from it.

Action: stop. The weights have not moved, so nothing is lost.
What to do: grpo-run preflight shows the rewards of gold, empty and garbage completions; grpo-run profile shows the rows
that the model solves sometimes. Then use easier prompts, more generations per prompt, a higher temperature, or a reward
that gives partial credit.
"""

from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, shown

ID = "GRD001"
NAME = "zero_variance"
FEWEST_STEPS = 10


class ZeroVariance(Guard):
    """Counts the groups until one varies. groups_per_step: prompts of one optimizer step over all processes."""

    def __init__(self, guards: Guards, groups_per_step: int) -> None:
        self._limit, self._per_step = guards.zero_variance_groups, groups_per_step
        self._steps: int | None = 0

    def look(self, line: Line) -> Alarm | None:
        """Alarms once."""
        if line.varied is None or self._steps is None:
            return None
        self.seen = True
        if line.varied:
            self._steps = None
            return None
        self._steps += line.steps
        groups = self._steps * self._per_step
        if groups < self._limit or self._steps < FEWEST_STEPS:
            return None
        self._steps = None
        return Alarm.of(
            groups,
            f"none of {groups} groups so far had two different rewards (mean reward"
            f" {shown(line.figures.get('reward', 0.0))})",
            "advantages compare the completions of a group: equal rewards give a gradient of zero",
            "look at the rewards with grpo-run preflight; easier prompts, which grpo-run profile finds, or a reward"
            " that gives partial credit",
        )
