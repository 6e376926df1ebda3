"""Ends completions at every end token that the model declares, and corrects what TRL derives from their ends.

Defect: TRL recognizes only the tokenizer's end token. A model may declare more, such as an end-of-turn and an
end-of-text token: generation continues after one of them, or, if it stops there, the padding that follows is trained as
if the policy had written it.
Seen: trl 0.14.0 to 1.14.1. In 1.14.2 every declared token ends a completion.
Remove when: trl below 1.14.2 is no longer supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.ends.ends import ends_of
from grpo_recipes.worker.shims.completion_ends import end_completions


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Makes generation end at each declared token, and TRL recognize it. Does nothing if there is only one."""
    ends = ends_of(trainer, plan)
    return end_completions(trainer, ends) if len(ends.tokens) > 1 else ""
