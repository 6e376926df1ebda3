"""The entropy has fallen below a third of its start, and the reward is no better than it was then.

With little entropy the completions of a group are alike, so their rewards are too, and nothing more is learned. Less
entropy alone is no fault: a model that becomes sure of right answers has less. So this speaks only when nothing was
gained for it.

Threshold: the mean of 10 optimizer steps is below 0.3 of the mean of the first 10, and the mean reward of the same
steps is not above that of the first ten by a quarter of their standard deviation. The 0.3 is a rule of thumb that
several practitioners give as a fall of 70 %; the reward was added since learning runs fall as far (a reward of 0.1
that becomes 0.9 does so). Signal: entropy, which TRL logs from 0.20 on.

Action: warn.
What to do: a higher temperature or epsilon_high, a smaller learning_rate, a reward that tells completions apart.
"""

from grpo_recipes.contract.metric_names import ENTROPY, REWARD_STD
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, shown

ID = "GRD009"
NAME = "entropy_collapse"
STEPS = 10
KEPT = 0.3
GAIN = 0.25


class EntropyCollapse(Guard):
    """The entropy and the reward against those of the first steps."""

    def __init__(self) -> None:
        self._windows = {name: Window(STEPS) for name in (ENTROPY, "reward", REWARD_STD)}
        self._first: dict[str, float] | None = None

    def look(self, line: Line) -> Alarm | None:
        """At most once in 10 steps."""
        if not all(name in line.figures for name in self._windows):
            return None
        self.seen = True
        means = {name: window.add(line, line.figures[name]) for name, window in self._windows.items()}
        now = {name: mean for name, mean in means.items() if mean is not None}
        if not now:
            return None
        if self._first is None:
            self._first = now
            return None
        start = self._first
        gained = now["reward"] - start["reward"] > GAIN * start[REWARD_STD]
        if gained or now[ENTROPY] >= KEPT * start[ENTROPY]:
            return None
        return Alarm.of(
            now[ENTROPY],
            f"the entropy is {shown(now[ENTROPY])} nats, {shown(start[ENTROPY])} in the first {STEPS} steps; the"
            f" reward {shown(now['reward'])}, {shown(start['reward'])} then",
            "completions become alike without becoming better",
            "a higher generation.temperature or grpo.epsilon_high, or a smaller training.learning_rate",
        )
