"""The right answer of every row is paid.

What: rows in which no form of the right answer gets more than a completion without it, or as much as another row's
right answer, by a reward that reads the column and that pays right answers in other rows. Reported from a tenth of the
rows on, and at least two; rows without a reward or without a right answer are left out.
Why: the mean hides them. A reward that takes the answers of the wrong rows still pays a few by chance, and rows whose
answers it cannot read look like hard tasks.
Fix: look at such a row; a column has one value for each completion, in the same order.
Example: reward right does not pay the right answers of 31 of 32 rows
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import GARBAGE, GOLD, OTHER, best_of_golds, by_row, cut
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import gold_is_an_answer, rewards_teach

ID = "PFL066"
SHARE, FEWEST = 0.1, 2
WITHOUT_IT = tuple(case for case in GARBAGE if case != OTHER)


def check(inputs: Seen) -> Iterator[Finding]:
    golds = inputs.trial_texts.get(GOLD, [])
    if (
        inputs.data is None
        or not inputs.gold
        or any(rewards_teach.check(inputs))
        or any(gold_is_an_answer.check(inputs))
    ):
        return
    for reward in inputs.rewards:
        if reward.judged is None or reward.weight <= 0 or inputs.reference not in reward.parameters:
            continue
        rows = {
            row: values
            for row, values in by_row(reward.judged).items()
            if golds[row].strip() and {*values.values()} != {None}
        }
        unpaid = [row for row, values in rows.items() if not _is_paid(values)]
        if len(rows) > len(unpaid) >= max(FEWEST, SHARE * len(rows)):
            numbers = [inputs.data.number(inputs.sample[row]) for row in unpaid]
            yield warning(
                f"reward {reward.name} does not pay the right answers of {len(unpaid)} of {len(rows)} rows",
                reward.key,
                because=(
                    f"rows {join_items(numbers, 5)}; that of row {numbers[0]} is {cut(golds[unpaid[0]], 60)!r}",
                    f"right answers: {inputs.gold}",
                ),
                fix="look at these rows; a column has one value for each completion, in the same order",
            )


def _is_paid(values: dict[str, float | None]) -> bool:
    without_it = (value for case in WITHOUT_IT if (value := values.get(case)) is not None)
    best, other = best_of_golds(values), values.get(OTHER)
    return best > max(without_it, default=0.0) and (other is None or best >= other)
