"""Nearly all completions are cut at max_completion_length, before they end.

A reward that reads the end of an answer finds no end, so its value depends on where the completion was cut. The model
does not learn to end either, since no end token is trained. With mask_truncated_completions nothing is trained at all.

Threshold: guards.truncation_share, 0.95, averaged over 10 optimizer steps. verl's documentation calls a share of 0.1
too much; to be warned at that share, set the key to 0.1. It is not the default because many completions are cut early
in a run, and a model learns to be shorter if the rewards favour that. Signal: completions/clipped_ratio, which counts
completions without an end; releases before 0.17 log only the mean length, which is max_completion_length if all are
cut.

Action: warn. Some rewards, such as one on the first tokens, do not need an end.
What to do: a larger generation.max_completion_length; a chat template that ends a turn, or generation.stop, so the
model can write an end; a prompt that asks for short answers.
"""

from grpo_recipes.contract.metric_names import CLIPPED_RATIO, MEAN_LENGTH
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window

ID = "GRD003"
NAME = "truncation"
STEPS = 10


class Truncation(Guard):
    """Watches the share of completions that were cut. limit: max_completion_length."""

    def __init__(self, guards: Guards, limit: int) -> None:
        self._share, self._limit = guards.truncation_share, limit
        self._window = Window(STEPS)

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 10 steps."""
        cut = line.figures.get(CLIPPED_RATIO)
        length = line.figures.get(MEAN_LENGTH)
        if cut is None and length is not None:
            cut = float(length >= self._limit)
        if cut is None:
            return None
        self.seen = True
        share = self._window.add(line, cut)
        if share is None or share < self._share:
            return None
        return Alarm.of(
            share,
            f"{share:.0%} of the completions of the last {STEPS} steps were cut at {self._limit} tokens",
            "rewards depend on where completions were cut, and the model does not learn to end",
            "a larger generation.max_completion_length, or generation.stop if the model writes no end token",
        )
