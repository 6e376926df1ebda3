"""The KL divergence from the reference model is high, and has risen many times over.

beta keeps the policy near the reference. A divergence that suddenly rises many times over means that the policy has
jumped: an update was too large, or the reward pays for text that the reference would never write.

Threshold: the mean of 5 optimizer steps is above 1 nat per token, and above 10 times the median of all earlier means,
of which there must be at least 4. The divergence begins at 0, so a factor of ten alone would fire in every run; the 1
nat was chosen far above the values of ordinary runs with beta. Signal: kl, which TRL logs with beta > 0.

Action: warn.
What to do: a smaller learning_rate or max_grad_norm, or a larger beta; compare completions from before and after.
"""

from statistics import median

from grpo_recipes.contract.metric_names import KL
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD008"
NAME = "kl_rise"
STEPS = 5
FEWEST_MEANS = 4
TIMES = 10
HIGH = 1.0


class KlRise(Guard):
    """Compares the divergence with its median."""

    def __init__(self) -> None:
        self._window = Window(STEPS)
        self._means: list[float] = []

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 5 steps."""
        if KL not in line.figures:
            return None
        self.seen = True
        mean = self._window.add(line, line.figures[KL])
        if mean is None:
            return None
        self._means.append(mean)
        before = self._means[:-1]
        if len(before) < FEWEST_MEANS or mean <= max(HIGH, TIMES * (usual := median(before))):
            return None
        return Alarm.of(
            mean,
            f"the KL divergence of the last {STEPS} steps is {figure(mean)}, the median before {figure(usual)}",
            "the policy has jumped away from the reference",
            "a smaller training.learning_rate or max_grad_norm, or a larger grpo.beta",
        )
