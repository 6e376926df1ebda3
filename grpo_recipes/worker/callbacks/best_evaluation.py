"""Chooses the best of a run's evaluations."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.run_record import step_text

BEST, SINCE, CHOSEN_FROM = "best", "evaluations_since_best", "chosen_from"


class BestEvaluation:
    """The best evaluation of trained weights, by held-out reward; the first of equal ones. All ranks get the same.

    The one after a warm start is that of step 0. known: run.json's evaluations at the checkpoint that the run resumes
    from, {} for a new run. step: of the best one, None before the first with a reward. since: evaluations after it.
    chosen_from: the steps that were compared.
    """

    def __init__(self, known: Mapping[str, Any]) -> None:
        best = known.get(BEST) or {}
        self.step: int | None = best.get("step")
        self.since: int = known.get(SINCE, 0)
        self.chosen_from: list[int] = [*known.get(CHOSEN_FROM, ())]
        self._reward: float | None = best.get("reward")
        self._unrewarded: int = best.get("without_reward", 0)

    def is_better(self, figures: Mapping[str, Any]) -> bool:
        """Adds an evaluation, and returns whether it is now the best one.

        An evaluation with a judge's score missing is not compared, and never ends the training. Of others, the one
        with fewer completions without any reward is better, since a mean over fewer rows says less.
        """
        reward, unrewarded = figures["reward"], figures.get("without_reward", 0)
        if "without_score" in figures:
            return False
        if figures["step"] not in self.chosen_from:
            self.chosen_from.append(figures["step"])
        is_worse = self._reward is not None and (
            reward is None or (unrewarded, -reward) >= (self._unrewarded, -self._reward)
        )
        if reward is None or is_worse:
            self.since += 1
            return False
        self.step, self._reward, self._unrewarded, self.since = figures["step"], reward, unrewarded, 0
        return True

    def why_over(self, stop_after: int | None, step: int, max_steps: int) -> str | None:
        """Returns why the training ends here, None if it continues."""
        if stop_after is None or self.since < stop_after:
            return None
        times = "one evaluation" if self.since == 1 else f"{self.since} evaluations"
        than = "with a reward" if self.step is None else f"better than that of {step_text(self.step)}"
        return f"ended early, at step {step} of {max_steps}: {times} and none {than}"
