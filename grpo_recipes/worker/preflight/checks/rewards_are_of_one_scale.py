"""The reward for right answers counts next to the others.

What: the range of each reward over the tried completions, times its weight. Reported: a reward that does not read the
right answers has a range of at least 20 times that of all rewards that do; and the reverse, if the right answers' own
range is that large, such as a percentage. A small weight next to a 1 for the right answer is a choice.
Why: TRL adds the weighted rewards and compares the sums of a group. A number of words from 0 to 60 next to a 1 for the
right answer teaches length; a right answer changes the sum by less than one word more.
Fix: a smaller weight, or a reward from 0 to 1.
Example: reward words differs by 40 between completions, and right answers count for 1
Source: trl's grpo_trainer.py (rewards_per_func times reward_weights, then nansum).
"""

import math
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import RewardSeen, record
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks.passes_are_right import tells_apart

ID = "PFL065"
TIMES = 20


def check(inputs: Seen) -> Iterator[Finding]:
    readers = [reward for reward in inputs.rewards if inputs.gold and tells_apart(inputs, reward)]
    counted = sum(_range(reward) for reward in readers)
    large = max(readers, key=_range, default=None)
    for reward in inputs.rewards if counted else ():
        own = _range(reward)
        if large is not None and reward not in readers and 0 < own * TIMES <= _range(large) >= TIMES:
            yield warning(
                f"reward {large.name} differs by {record(_range(large))} between completions, and {reward.name} by "
                f"{record(own)}",
                (*large.key, "weight"),
                because=(
                    f"a range of {TIMES} or more is a percentage or a count",
                    "trl adds the rewards, each times its weight, and compares the sums of a group",
                ),
                fix=f"weight: {large.weight / _range(large):.2g}, or a reward from 0 to 1",
            )
        if reward not in readers and own >= TIMES * counted:
            yield warning(
                f"reward {reward.name} differs by {record(own)} between completions, and right answers count for "
                f"{record(counted)}",
                (*reward.key, "weight"),
                because=(
                    f"right answers are paid by {join_items([reader.name for reader in readers])}",
                    "trl adds the rewards, each times its weight, and compares the sums of a group",
                ),
                fix=f"weight: {reward.weight * counted / own:.2g}, or a reward from 0 to 1",
            )


def _range(reward: RewardSeen) -> float:
    """Returns the difference between the highest and the lowest finite value, times the weight."""
    given = () if reward.judged is None else reward.judged.values
    values = [value for value in given if value is not None and math.isfinite(value)]
    return abs(reward.weight) * (max(values) - min(values)) if values else 0.0
