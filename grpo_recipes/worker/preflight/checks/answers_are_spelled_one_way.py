"""Right answers are spelled as the prompts and other right answers are.

What: right answers with a second spelling in use: 1,849 where other rows or the prompts have 1849, 12,5 and 12.5, a
minus sign and a hyphen, 2.0 where no prompt has a number in .0 or asks for decimals, Positive and positive, yes where
every prompt asks for Yes or No. They are tried in both spellings, and reported if a reward pays only one; the reward
`accuracy` compares numbers.
Why: a model writes what the prompts and most right answers show, and is scored as wrong in the other rows. `datasets`
reads 2 as 2.0 if another row has 2.5, and a template writes 2.0.
Fix: write the answers as strings in the data file, convert them in the template, or accept both in the reward.
Example: 3 of 32 right answers are paid in one of two spellings: '2.0', not '2'
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import GOLD, RESPELLED, best_of_golds, by_row, cut
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL047"


def check(inputs: Seen) -> Iterator[Finding]:
    golds, others = inputs.trial_texts.get(GOLD, []), inputs.trial_texts.get(RESPELLED)
    column = inputs.reference
    if others is None or inputs.data is None or column is None:
        return
    for reward in inputs.rewards:
        rows = {} if reward.judged is None or reward.weight <= 0 else by_row(reward.judged)
        unpaid = [row for row, values in rows.items() if best_of_golds(values) > (values.get(RESPELLED) or 0.0)]
        if unpaid and column in reward.parameters:
            gold, other = golds[unpaid[0]], others[unpaid[0]]
            whole = f", such as {{{{ {column} | int if {column} == {column} | int else {column} }}}}"
            yield warning(
                f"{len(unpaid)} of {len(rows)} right answers are paid in one of two spellings: {cut(gold, 30)!r}, not "
                f"{cut(other, 30)!r}",
                ("dataset", "columns", column),
                because=(
                    f"row {inputs.data.number(inputs.sample[unpaid[0]])}, by {reward.name}",
                    "the prompts or other right answers have the second spelling, so a model writes it",
                ),
                fix=f"a template that writes {column} in one form{whole if gold.endswith('.0') else ''}; or a reward "
                "that accepts both",
            )
            return
