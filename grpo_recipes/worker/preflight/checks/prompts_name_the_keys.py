"""Prompts name the keys of the JSON that json_fields expects.

What: fields of the right answers that no part of a prompt mentions, in every examined row.
Why: the model cannot guess the names of the fields, so it is scored as wrong for answers that are right in content.
Fix: name the keys in the prompt or in dataset.system_prompt.
Example: no prompt names amount_eur and due_days, fields that json_fields expects
"""

import json
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import GOLD
from grpo_recipes.worker.preflight._shared.seen import Seen, prompt_as_text

ID = "PFL057"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or all(reward.target != "json_fields" for reward in inputs.plan.rewards):
        return
    absent: set[str] | None = None
    for row, answer in zip(inputs.sample, inputs.trial_texts.get(GOLD, ()), strict=False):
        try:
            fields = json.loads(answer)
        except ValueError:
            continue
        text = prompt_as_text(inputs.data.prompts[row]).lower()
        unnamed = {key for key in fields if key.lower() not in text} if isinstance(fields, dict) else set()
        absent = unnamed if absent is None else absent & unnamed
    if absent:
        yield warning(
            f"no prompt names {join_items(sorted(absent), 5)}, which json_fields expects as keys",
            ("dataset", "prompt"),
            because=(f"{len(inputs.sample)} prompts were examined", "a model cannot guess the names of keys"),
            fix="name the keys in the prompt",
        )
