"""Right answers that are whole numbers have no decimal point.

What: preflight checks the right answers of the examined rows, and warns if any end in .0 and come from a column of
decimals.
Why: `datasets` reads 2 as 2.0 if another row has 2.5, and a template writes 2.0. A reward that compares strings then
scores the completion 2 as wrong. The reward `accuracy` compares numbers, and is not reported.
Fix: write the answers as strings in the data file, or convert them in the template.
Example: 3 of 32 right answers end in .0, such as 2.0 in row 1
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.reward_seen import fault
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL047"
_COMPARES_NUMBERS = ("accuracy", "reasoning_gym")
_WHOLE = re.compile(r"-?[0-9]+\.0")


def check(seen: Seen) -> Iterator[Finding]:
    data, column = seen.data, seen.reference
    if data is None or column is None or column not in seen.plan.data.columns:
        return
    targets = [seen.plan.rewards[reward.index].target for reward in seen.rewards if column in reward.parameters]
    if not {*targets} - {*_COMPARES_NUMBERS}:
        return
    sample = data.rows.select(seen.sample)
    answers = list(map(str, sample[column]))
    for name, feature in sample.features.items():
        if getattr(feature, "dtype", "") != "float64":
            continue
        numbers = zip(answers, map(str, sample[name]), strict=True)
        whole = [at for at, (answer, number) in enumerate(numbers) if _WHOLE.fullmatch(answer) and answer == number]
        if whole:
            first = answers[whole[0]]
            yield fault(
                "warning",
                f"{len(whole)} of {len(answers)} right answers end in .0, such as {first} in row "
                f"{data.number(seen.sample[whole[0]])}",
                ("dataset", "columns", column),
                because=(
                    f"column {name} has decimals, so all its numbers are read as decimals; a reward that compares"
                    f" strings scores the completion {first.removesuffix('.0')} as wrong",
                ),
                fix=f"write {name} as strings in the data file, or use the template "
                f'"{{{{ {name} | int if {name} == {name} | int else {name} }}}}"',
            )
            return
