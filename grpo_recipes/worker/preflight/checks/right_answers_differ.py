"""Rows have different right answers.

What: the column that right answers are made from has the same value in all training rows, at least 8 of them, and a
reward compares with it.
Why: the model learns to give this answer to any question. Usually a template takes the wrong column, or max_rows keeps
the beginning of a file that is sorted by its answers.
Fix: the column of the answer under dataset.columns; shuffle_seed, which draws the rows that max_rows keeps.
Example: all 200 right answers are 'positive'
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL055"
FEWEST_ROWS = 8


def check(inputs: Seen) -> Iterator[Finding]:
    column = inputs.reference
    if inputs.data is None or column is None or column not in inputs.data.rows.column_names:
        return
    answers = ["" if value is None else str(value).strip() for value in inputs.data.rows[column]]
    reads = any(reward.weight > 0 and column in reward.parameters for reward in inputs.rewards)
    if reads and len(answers) >= FEWEST_ROWS and answers[0] and len({*answers}) == 1:
        yield warning(
            f"all {len(answers)} right answers are {cut(answers[0], 40)!r}",
            ("dataset", "columns", column),
            because=(f"column {column} has one value in all rows", "the model learns to answer it to any question"),
            fix="the column of the answer under dataset.columns, or shuffle_seed if the file is sorted by its answers",
        )
