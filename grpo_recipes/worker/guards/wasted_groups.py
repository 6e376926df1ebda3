"""Most groups of completions no longer vary: most of the work teaches nothing.

A group whose completions all have the same reward has a gradient of zero, so its generation was wasted. Success looks
the same: prompts that the model always answers correctly have no variance.

Threshold: guards.wasted_groups_share, 0.9, averaged over 20 optimizer steps. Lower values are common in healthy runs:
in the shipped quickstart 0.4 to 0.9 of the groups of a step have no variance while the reward rises from 0.77 to 0.96.
A threshold of 0.5, as commonly advised, would fire there. Signal: groups_without_variance, as for GRD001.

Action: note, since a run that has learned its task ends this way.
What to do: with a high reward, end the run or use harder prompts; with a low one, use easier prompts, a higher
temperature, or more generations per prompt. grpo.resample_groups redraws such groups with other prompts. loss_type
and learning rate do not help: there is no gradient.
"""

from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD002"
NAME = "wasted_groups"
STEPS = 20


class WastedGroups(Guard):
    """Watches the share of groups without variance."""

    def __init__(self, guards: Guards) -> None:
        self._limit = guards.wasted_groups_share
        self._window = Window(STEPS)

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 20 steps."""
        if line.zero_variance is None:
            return None
        self.seen = True
        share = self._window.add(line, line.zero_variance)
        if share is None or share < self._limit:
            return None
        return Alarm.of(
            share,
            f"{share:.0%} of the groups of the last {STEPS} steps had no variance (mean reward"
            f" {figure(line.figures.get('reward', 0.0))})",
            "equal rewards in a group give no gradient",
            "with a high reward, end the run or use harder prompts; with a low one, use easier prompts",
        )
