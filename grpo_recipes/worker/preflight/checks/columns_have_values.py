"""Columns that rewards read have a value in every row.

What: nulls in columns that a reward names as a parameter.
Why: many functions fail on a null, at the step that draws its row; others score every completion of that row as wrong.
Fix: leave rows without a value out of the data, or set a default in a template under dataset.columns.
Example: 5 of 100 rows have no value in column solution, which reward accuracy reads
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.trl_source import KEPT_COLUMNS, names_from_trl

ID = "PFL009"


def check(inputs: Seen) -> Iterator[Finding]:
    data = inputs.data
    for name in data.rows.column_names if data is not None else ():
        readers = [reward.name for reward in inputs.rewards if name in reward.parameters]
        if data is None or not readers or name in (*KEPT_COLUMNS, *names_from_trl()):
            continue
        indices = [index for index, value in enumerate(data.rows[name]) if value is None]
        if indices:
            yield warning(
                f"{len(indices)} of {len(data.prompts)} rows have no value in column {name}, which reward "
                f"{readers[0]} reads",
                ("dataset", "columns", name),
                because=f"rows {join_items([data.number(index) for index in indices], 5)}",
                fix="leave these rows out of the data",
            )
