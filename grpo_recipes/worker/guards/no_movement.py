"""Rewards vary within groups, but no trained tensor has changed for many steps.

The first steps prove that the trained tensors move (PRF005). They can stop later: a patch or callback resets an adapter
or turns it off, the optimizer skips every step (fp16 with no loss scale that gives finite gradients), the learning rate
is 0, updates are below the spacing of bfloat16 weights, or mask_truncated_completions is on and every completion is
truncated. The loss does not show it, because a loss around 0 is normal for GRPO.

Threshold: guards.no_movement_steps, 20 optimizer steps with varying rewards, after which the bits of all trained
tensors are unchanged on every process. Steps without variance do not count, since they have no gradient; nor do steps
at the end of a schedule that has fallen to 0. Signal: one sum over the trained tensors in 20 steps;
groups_without_variance below 1.

Action: stop. The model is the same as 20 steps ago, and every further step wastes time.
What to do: check training.learning_rate and its schedule. For full training in bfloat16, use float32 weights or a
larger rate. Look for callbacks and patches that touch the adapter.
"""

from collections.abc import Callable

from grpo_recipes.contract.metric_names import GRAD_NORM
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, figure

ID = "GRD005"
NAME = "no_movement"
LOOKS_BACK = False  # it watches this process


class NoMovement(Guard):
    """Compares the trained tensors after so many steps that could move them.

    have_moved: whether any changed on any process since the last call; all processes must call it.
    """

    def __init__(self, guards: Guards, have_moved: Callable[[], bool]) -> None:
        self._limit, self._have_moved = guards.no_movement_steps, have_moved
        self._steps, self._rate_was_positive = 0, False

    def memory(self) -> list[int]:
        """Returns the steps counted so far, and whether the learning rate was positive in any of them."""
        return [self._steps, int(self._rate_was_positive)]

    def remember(self, memory: list[int]) -> None:
        """Restores what memory() returned."""
        self._steps, self._rate_was_positive = memory[0], bool(memory[1])

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in so many steps."""
        rate = line.figures.get("learning_rate")
        self._rate_was_positive |= rate is not None and rate > 0
        if not line.has_variance or (rate == 0 and self._rate_was_positive):
            return None
        self.seen = True
        self._steps += line.steps
        if self._steps < self._limit:
            return None
        steps, self._steps = self._steps, 0
        if self._have_moved():
            return None
        norm = line.figures.get(GRAD_NORM)
        because = "the optimizer's steps had no effect"
        if rate == 0:
            because = "the learning rate is 0"
        elif norm == 0:
            because = "the gradient is zero although rewards vary: the adapter is turned off, or no token is trained"
        elif norm is not None:
            because += f" (gradient norm {figure(norm)}, learning rate {'?' if rate is None else figure(rate)})"
        return Alarm.of(
            steps,
            f"no trained tensor changed in {steps} steps whose rewards varied",
            because,
            "a larger training.learning_rate or model.dtype: float32; look for code that resets the adapter or turns it"
            " off",
        )
