"""Which evaluation was the best so far, and how many came since: for keep_best and stop_after."""

from collections.abc import Mapping
from typing import Any

BEST, SINCE = "best", "evaluations_since_best"


class BestEvaluation:
    """The best evaluation after a step, by the held-out reward; of equal ones the first. All ranks come to the same.

    known: what run.json said of evaluations when the checkpoint was written that is gone on from, {} for a beginning.
    step: of the best one, None before the first that has a reward. since: evaluations after it.
    """

    def __init__(self, known: Mapping[str, Any]) -> None:
        best = known.get(BEST) or {}
        self.step: int | None = best.get("step")
        self.since: int = known.get(SINCE, 0)
        self._reward: float | None = best.get("reward")

    def is_better(self, figures: Mapping[str, Any]) -> bool:
        """Takes in an evaluation, and returns whether it is the best one now."""
        reward = figures["reward"]
        if reward is None or (self._reward is not None and reward <= self._reward):
            self.since += 1
            return False
        self.step, self._reward, self.since = figures["step"], reward, 0
        return True

    def why_over(self, stop_after: int | None, step: int, max_steps: int) -> str | None:
        """Why the training ends here, None where it goes on."""
        if stop_after is None or self.since < stop_after:
            return None
        times = "one evaluation" if self.since == 1 else f"{self.since} evaluations"
        than = "with a reward" if self.step is None else f"better than that of step {self.step}"
        return f"ended early, at step {step} of {max_steps}: {times} and none {than}"
