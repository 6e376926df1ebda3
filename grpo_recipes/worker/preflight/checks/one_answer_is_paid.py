"""A completion that names every right answer is not right.

What: if the examined rows have 2 to 10 different right answers, such as labels or letters, rewards are also tried on a
completion that lists them all. Reported: a reward that pays it as much as the right answer alone, in every row, and
that does not pay the right answer of another row.
Why: the model learns to name all of them, which needs no knowledge of the task.
Fix: compare the whole completion, or the only answer after a mark such as "Answer:".
Example: reward letter pays a completion that lists all 4 right answers as much as the right one
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import EVERY_GOLD, OTHER, best_of_golds, by_row, cut
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL061"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        if reward.judged is None or reward.weight <= 0 or EVERY_GOLD not in inputs.trial_texts:
            continue
        rows = [values for values in by_row(reward.judged).values() if {EVERY_GOLD, OTHER} <= {*values}]
        if rows and all((v[EVERY_GOLD] or 0.0) >= best_of_golds(v) > (v[OTHER] or 0.0) for v in rows):
            listed_answers = inputs.trial_texts[EVERY_GOLD][0]
            yield warning(
                f"reward {reward.name} pays a completion that lists all right answers as much as the right one",
                reward.key,
                because=(f"such as {cut(listed_answers, 80)!r}", "the model learns to name all of them"),
                fix="compare the whole completion, or the only answer after a mark such as 'Answer:'",
            )
