r"""A right answer is accepted as a model writes it.

What: rows whose right answer is paid only as the whole text of the column, not as the answer at its end (in \boxed{} or
after ####); and rows for accuracy and cosine_scaled whose answer is not paid in \boxed{}.
Why: a model writes an answer, not the text of a solution. These rows are never solved, which looks like a hard task.
Fix: a template under dataset.columns that leaves only the answer, as a number or in LaTeX.
Example: the right answers of 3 of 32 rows are not paid in \boxed{} by accuracy
Source: math-verify 0.9.0 parser.py, which reads 2 * 15 = 30 as an equation that no number equals.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import (
    BOXED,
    GOLD,
    GOLD_AS_ASKED,
    GOLD_BOXED,
    GOLD_IN_TAGS,
    GOLD_SHORT,
    RewardSeen,
    cut,
)
from grpo_recipes.worker.preflight._shared.seen import Seen, template_of

ID = "PFL051"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        if inputs.reference in reward.parameters and reward.judged is not None:
            yield from _of_reward(inputs, reward)


def _of_reward(inputs: Seen, reward: RewardSeen) -> Iterator[Finding]:
    assert reward.judged is not None
    values = {
        (row, case): value for (row, case), value in zip(reward.judged.entries, reward.judged.values, strict=True)
    }
    rows, golds = sorted({row for row, _ in values}), inputs.trial_texts[GOLD]
    reads_boxes = reward.kind == "shipped" and inputs.plan.rewards[reward.index].target in BOXED

    def is_paid(row: int, *cases: str) -> bool:
        return any((values.get((row, case)) or 0.0) > 0 for case in cases)

    whole = [
        row
        for row in rows
        if GOLD_SHORT in inputs.trial_texts and inputs.trial_texts[GOLD_SHORT][row] != golds[row]
        if is_paid(row, GOLD) and not is_paid(row, GOLD_SHORT, GOLD_BOXED, GOLD_AS_ASKED)
    ]
    boxed = [
        row
        for row in rows
        if reads_boxes and row not in whole and not is_paid(row, GOLD_BOXED, GOLD_IN_TAGS, GOLD_SHORT)
        if is_paid(row, GOLD) or ("=" in golds[row] and any(map(str.isdigit, golds[row])))
    ]
    if whole:
        template = template_of(inputs, str(inputs.reference), "{}.split('####')[-1] | trim")
        fix = f"only the answer: {template or f'a template for {inputs.reference} that leaves it'}"
        yield _fault(inputs, reward, whole, len(rows), "are paid only as whole solutions", fix)
    if boxed:
        fix = f"only the answer in {inputs.reference}, as a number or in LaTeX"
        yield _fault(inputs, reward, boxed, len(rows), r"are not paid in \boxed{}", fix)


def _fault(inputs: Seen, reward: RewardSeen, rows: list[int], count: int, how: str, fix: str) -> Finding:
    assert inputs.data is not None
    numbers = [inputs.data.number(inputs.sample[row]) for row in rows]
    return warning(
        f"the right answers of {len(rows)} of {count} rows {how} by {reward.name}",
        ("dataset", "columns", str(inputs.reference)),
        because=(
            f"rows {join_items(numbers, 5)}; that of row {numbers[0]} is {cut(inputs.trial_texts[GOLD][rows[0]])!r}",
            "a model writes the answer alone, so it never solves these rows",
        ),
        fix=fix,
    )
