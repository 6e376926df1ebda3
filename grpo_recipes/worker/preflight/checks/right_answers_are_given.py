"""Every right answer has a text.

What: rows whose right answer is an empty text, while those of other rows are not, and which a reward that reads the
column scores. Rows for which every such reward gives None are left out. If the prompt says that an answer may be empty
or missing, this is a note.
Why: the empty text is part of every text, so a reward that searches for the answer pays every completion; one that
compares pays only an empty completion.
Fix: dataset.filter, to leave these rows out, or the column that has their answers.
Example: 24 of 200 right answers are empty, such as that of row 5
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.reward_seen import EMPTY, WORDS, by_row, record
from grpo_recipes.worker.preflight._shared.seen import Seen, prompt_as_text

ID = "PFL062"
MAY_BE_EMPTY = re.compile(r"\b(empty|nothing|blank|none|no answer|unanswerable)\b", re.I)


def check(inputs: Seen) -> Iterator[Finding]:
    data, column = inputs.data, inputs.reference
    if data is None or column is None or column not in data.rows.column_names:
        return
    empty = [index for index, value in enumerate(data.rows[column]) if isinstance(value, str) and not value.strip()]
    sampled = {row for row, index in enumerate(inputs.sample) if index in {*empty}}
    for reward in inputs.rewards:
        if reward.judged is None or column not in reward.parameters or len(empty) == len(data.prompts):
            continue
        scored = {row: values for row, values in by_row(reward.judged).items() if row in sampled}
        if not scored or all(value is None for values in scored.values() for value in values.values()):
            continue
        row, values = next(iter(scored.items()))
        is_allowed = MAY_BE_EMPTY.search(prompt_as_text(data.prompts[inputs.sample[row]]))
        yield mistake(
            f"{len(empty)} of {len(data.prompts)} right answers are empty, such as that of row "
            f"{data.number(inputs.sample[row])}",
            ("dataset", "columns", column),
            because=(
                f"reward {reward.name} gives an empty completion of that row {record(values.get(EMPTY))}, and words "
                f"{record(values.get(WORDS))}"
            ),
            fix='filter: "{{ ... }}" under dataset, with the column of the answer, which leaves these rows out',
            severity="note" if is_allowed else "warning",
        )
        return
