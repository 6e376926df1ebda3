"""The entropy has fallen below a third of its start, and the reward has not risen.

With little entropy the completions of a group are similar and get similar rewards, so the policy stops learning. Low
entropy is not a fault by itself: a model that becomes confident in right answers has less. The guard therefore fires
only if the reward has not risen in return.

Threshold: the mean of 10 optimizer steps is below 0.3 of the mean of the first 10, and the mean reward of the same
steps is not above that of the first ten by a quarter of their standard deviation. The 0.3 is a rule of thumb: several
practitioners warn of a fall of 70 %. The reward is compared too, because the entropy of successful runs falls as far,
for example while the reward rises from 0.1 to 0.9. Signal: entropy, which TRL logs since 0.20.

Action: warn.
What to do: a higher temperature or epsilon_high, a smaller learning_rate, or a reward that distinguishes completions.
"""

from grpo_recipes.contract.metric_names import ENTROPY, REWARD_STD
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD009"
NAME = "entropy_collapse"
STEPS = 10
KEPT = 0.3
GAIN = 0.25


class EntropyCollapse(Guard):
    """Compares entropy and reward with those of the first steps."""

    def __init__(self) -> None:
        self._windows = {name: Window(STEPS) for name in (ENTROPY, "reward", REWARD_STD)}
        self._first: dict[str, float] | None = None

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 10 steps."""
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
            f"since the first {STEPS} steps the entropy fell from {figure(start[ENTROPY])} to {figure(now[ENTROPY])}"
            f" nats, and the reward went from {figure(start['reward'])} to {figure(now['reward'])}",
            "completions become more similar without getting better",
            "a higher generation.temperature or grpo.epsilon_high, or a smaller training.learning_rate",
        )
