"""The rewards vary within groups, and for many steps no trained tensor has changed.

The first steps prove that the trained tensors move (PRF005). Later they can stop: a patch or callback that sets an
adapter back or switches it off, an optimizer whose steps are all skipped (fp16 whose scale finds no finite gradient),
a learning rate of 0, updates below the spacing of bfloat16 weights, or mask_truncated_completions with every
completion truncated. The loss says nothing of it: around 0 is normal for GRPO.

Threshold: guards.no_movement_steps, 20 optimizer steps with varying rewards, after which the bits of all trained
tensors are the same as before on every process. Steps without variance are not counted, since they have no gradient;
nor are steps at the end of a schedule that has come down to 0. Signal: the tensors themselves, one sum over them in
20 steps; groups_without_variance below 1.

Action: stop. The model is the one of 20 steps ago; every further step costs and changes nothing.
What to do: see training.learning_rate and its schedule; weights in float32, or a larger rate, for full training in
bfloat16; callbacks and patches that touch the adapter.
"""

from collections.abc import Callable

from grpo_recipes.contract.metric_names import GRAD_NORM
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, shown

ID = "GRD005"
NAME = "no_movement"
LOOKS_BACK = False  # what it watches is of this process


class NoMovement(Guard):
    """Looks at the trained tensors after so many steps that could move them.

    have_moved: whether any changed on any process since it was last called; called on all processes at once.
    """

    def __init__(self, guards: Guards, have_moved: Callable[[], bool]) -> None:
        self._limit, self._have_moved = guards.no_movement_steps, have_moved
        self._steps, self._rate_was_positive = 0, False

    def memory(self) -> list[int]:
        """The steps that were counted, and whether the learning rate was positive in one."""
        return [self._steps, int(self._rate_was_positive)]

    def remember(self, memory: list[int]) -> None:
        """Takes what memory() told."""
        self._steps, self._rate_was_positive = memory[0], bool(memory[1])

    def look(self, line: Line) -> Alarm | None:
        """At most once in so many steps."""
        rate = line.figures.get("learning_rate")
        self._rate_was_positive |= rate is not None and rate > 0
        if not line.varied or (rate == 0 and self._rate_was_positive):
            return None
        self.seen = True
        self._steps += line.steps
        if self._steps < self._limit:
            return None
        steps, self._steps = self._steps, 0
        if self._have_moved():
            return None
        norm = line.figures.get(GRAD_NORM)
        because = "the optimizer's steps changed nothing"
        if rate == 0:
            because = "the learning rate is 0"
        elif norm == 0:
            because = "the gradient is zero though rewards vary: an adapter that is off, or no token that is trained"
        elif norm is not None:
            because += f" (gradient norm {shown(norm)}, learning rate {'?' if rate is None else shown(rate)})"
        return Alarm.of(
            steps,
            f"no trained tensor changed in {steps} steps whose rewards varied",
            because,
            "training.learning_rate; model.dtype: float32; what sets the adapter back or switches it off",
        )
