"""Each held-out set has the columns that its rewards read.

What: preflight calls each reward that judges a set of `evaluation.sets` on its first row, with an empty completion.
Why: a set from a different source may lack a column, or have it in a different form, and the first evaluation fails
after the model is loaded.
Fix: give the set `columns` with templates over its own columns, or `rewards` without this one.
Example: reward accuracy cannot judge held-out set math: it asks for solution, which the set does not have
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks.rewards_return import ENVIRONMENTS

ID = "PFL041"


def check(inputs: Seen) -> Iterator[Finding]:
    faulty = {reward.name for reward in inputs.rewards if reward.failed is not None}  # reported by other checks
    columns = {rows.where: sorted(set(rows.rows.column_names) - {"prompt"}) for rows in inputs.held_out}
    for section, rewards in inputs.rewards_of_sets.items():
        name = section.rpartition(".")[2]
        for reward in rewards:
            failed = reward.failed
            if failed is None or reward.name in faulty or ENVIRONMENTS in failed.missing:
                continue
            asks = f"it asks for {join_items(failed.missing)}, which the set does not have"
            how = asks if failed.missing else failed.error or failed.by
            yield mistake(
                f"reward {reward.name} cannot judge held-out set {name}: {how}",
                (section,),
                because=(
                    f"it gets {', '.join(columns[section]) or 'no columns'}",
                    *([failed.place] if failed.place else []),
                ),
                fix="give the set `columns` with templates over its own columns, or `rewards` without this one",
            )
