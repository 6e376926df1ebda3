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

Earlier, it notes that almost no answer earns a reward: at most 1 in 100 rows of the evaluation before the first step,
of at least 20, has more than the lowest reward, which is 0 or less; or of several rewards, one that is 0 on as many
rows, unless it is a shipped one that only takes away. Without this evaluation the first 256 completions
decide: nine tenths of their groups have no variance, and the mean reward is at most 0.01 of the weights.

Action: stop. The weights have not moved, so nothing is lost.
What to do: grpo-run preflight shows the rewards of gold, empty and garbage completions; grpo-run profile shows the rows
that the model solves sometimes. Then use easier prompts, more generations per prompt, a higher temperature, a
warm_start on gold answers, or a reward that gives partial credit.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from grpo_recipes.contract.findings.wording import shorten
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.rewards.ranges import planned_range
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD001"
NAME = "zero_variance"
FEWEST_STEPS = 10
FEWEST_ROWS, FIRST_COMPLETIONS = 20, 256
FEW, MOST_VARIED = 0.01, 0.1
SHOWN, MOST_CHARACTERS = 3, 80


def few_paid(share: float, message: str, answers: Sequence[str]) -> Alarm:
    """Returns the note that almost no answer earns a reward. answers: some that earn none."""
    examples = ", ".join(repr(shorten(" ".join(answer.split()), MOST_CHARACTERS)) for answer in answers[:SHOWN])
    return Alarm.of(
        share,
        message,
        f"such as {examples}",
        "look at the rewards with grpo-run preflight; easier rows, which grpo-run profile finds, a warm_start on gold"
        " answers, or a reward with partial credit",
        is_note=True,
    )


def of_evaluation(judged: Sequence[Any], plan: Plan, name: str) -> Alarm | None:
    """Returns the note if almost no row of an evaluation before the first step has more than the lowest reward.

    judged: of JudgedRow.
    """
    weights = {reward.name: reward.weight for reward in plan.rewards}
    of = f"the {len({row.row for row in judged})} held-out rows{f' of {name}' if name else ''}"
    totals = [
        sum(weights.get(name, 1.0) * value for name, value in row.rewards.items() if value is not None)
        for row in judged
    ]
    if alarm := _of_values(judged, totals, f"of {of} earn any reward"):
        return alarm
    for reward in plan.rewards if len(plan.rewards) > 1 else ():
        scored = [row for row in judged if row.rewards.get(reward.name) is not None]
        message = f"of {of} earn anything from {reward.name}, as expected only of a penalty"
        alarm = _of_values(scored, [row.rewards[reward.name] for row in scored], message)
        if alarm is not None and reward.weight > 0 and planned_range(reward)[1] > 0:
            return alarm
    return None


def _of_values(judged: Sequence[Any], values: Sequence[float], message: str) -> Alarm | None:
    lowest = min(values, default=math.inf)
    rows = {row.row for row in judged}
    paid = {row.row for row, value in zip(judged, values, strict=True) if value > lowest}
    if len(rows) < FEWEST_ROWS or lowest > 0 or len(paid) > FEW * len(rows):
        return None
    unpaid = [row.completion for row, value in zip(judged, values, strict=True) if value == lowest]
    return few_paid(len(paid) / len(rows), f"{len(paid)} {message}", unpaid)


class FirstRewards:
    """Sums the rewards of a run's first completions.

    per_step: completions of an optimizer step. weights: the sum of the plan's. answers: returns some completions of the
    last step.
    """

    def __init__(self, per_step: int, weights: float, answers: Callable[[], Sequence[str]]) -> None:
        self._per_step, self._least, self._answers = per_step, FEW * weights, answers
        self._window: Window | None = Window(math.ceil(FIRST_COMPLETIONS / self._per_step))
        self._varied = 0.0

    def look(self, line: Line) -> Alarm | None:
        """Returns the note, at most once."""
        if self._window is None or line.zero_variance is None:
            return None
        self._varied = max(self._varied, 1 - line.zero_variance)
        mean = self._window.add(line, line.figures.get("reward", math.inf))
        if mean is None:
            return None
        self._window = None
        if mean > self._least or self._varied > MOST_VARIED:
            return None
        count = self._per_step * math.ceil(FIRST_COMPLETIONS / self._per_step)
        return few_paid(mean, f"the first {count} completions earn a mean reward of {figure(mean)}", self._answers())


class ZeroVariance(Guard):
    """Counts the groups until one varies. groups_per_step: prompts of one optimizer step over all processes.

    first: notes that almost no completion earns a reward; None if the evaluation before the first step does.
    """

    def __init__(self, guards: Guards, groups_per_step: int, first: FirstRewards | None = None) -> None:
        self._limit, self._per_step, self._first = guards.zero_variance_groups, groups_per_step, first
        self._steps: int | None = 0

    def look(self, line: Line) -> Alarm | None:
        """Alarms once, after a note about the first rewards."""
        note = None if self._first is None else self._first.look(line)
        return self._count(line) or note

    def _count(self, line: Line) -> Alarm | None:
        if line.has_variance is None or self._steps is None:
            return None
        self.seen = True
        if line.has_variance:
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
            f" {figure(line.figures.get('reward', 0.0))})",
            "advantages compare the completions of a group: equal rewards give a gradient of zero",
            "look at the rewards with grpo-run preflight; easier prompts, which grpo-run profile finds, a warm_start"
            " on gold answers, or a reward that gives partial credit",
        )
