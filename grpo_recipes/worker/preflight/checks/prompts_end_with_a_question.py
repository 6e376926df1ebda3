"""The last message of a prompt is not the assistant's.

What: conversations that end with an assistant message, e.g. data that still contains its answers.
Why: TRL starts another assistant message after it, so the model answers an answered question. TRL before 0.26 continues
the message instead.
Fix: end prompts with the user's message, and put the answer into a column for the rewards.
Example: 100 of 100 prompts end with an assistant message
Sources: trl's grpo_trainer.py (_tokenize_prompts, add_generation_prompt=True).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, is_conversational

ID = "PFL005"


def check(inputs: Seen) -> Iterator[Finding]:
    for rows in (inputs.data, *inputs.held_out):
        if rows is not None:
            yield from _of(rows)


def _of(rows: Rows) -> Iterator[Finding]:
    answered = [
        index
        for index, prompt in enumerate(rows.prompts)
        if is_conversational(prompt) and prompt[-1].get("role") == "assistant"
    ]
    if answered:
        yield warning(
            f"{rows.where}: {len(answered)} of {len(rows.prompts)} prompts end with an assistant message",
            (rows.where, "prompt"),
            because=(
                f"of rows {join_items([rows.number(index) for index in answered], 5)}",
                "trl starts another assistant message after it",
            ),
            fix="end prompts with a user message",
        )
