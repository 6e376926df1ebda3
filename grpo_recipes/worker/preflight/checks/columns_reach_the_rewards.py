"""Columns reach the rewards under their own names.

What: columns whose names TRL does not pass on (completion, completion_ids) or uses for its own values (trainer_state,
log_extra, log_metric).
Why: a reward that asks for such a column fails or reads something else.
Fix: rename it under dataset.columns, e.g. {reference: "{{ completion }}"}.
Example: column trainer_state does not reach the rewards, because trl passes its own trainer_state instead
Source: trl's grpo_trainer.py (_calculate_rewards).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.trl_source import KEPT_COLUMNS, names_from_trl

ID = "PFL008"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None:
        return
    names = list(inputs.data.rows.column_names)
    unpassed = [name for name in names if name in KEPT_COLUMNS and name != "prompt"]
    own = [name for name in names if name in names_from_trl() and name not in KEPT_COLUMNS]
    for name in [*unpassed, *own]:
        yield mistake(
            f"column {name} does not reach the rewards",
            ("dataset", "columns", name),
            because="trl does not pass it on" if name in unpassed else f"trl passes its own {name} instead",
            fix=f'columns: {{reference: "{{{{ {name} }}}}"}} under dataset',
            severity="warning"
            if name in own or any(name in reward.parameters for reward in inputs.rewards)
            else "note",
        )
