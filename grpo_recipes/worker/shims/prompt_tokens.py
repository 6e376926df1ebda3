"""Tokenizes prompts like the newest TRL.

Defect: TRL before 0.26 tokenizes a plain prompt without the tokenizer's special tokens, so a Llama model does not see
its beginning-of-sequence token; later releases add them. All releases render conversations in the same way, unless the
last message is the assistant's: the older releases let the model continue it, newer ones start a new message.
Seen: trl 0.14.0 to 0.25.1 against 0.26.0 and 1.16.0 (grpo_trainer.py, add_special_tokens).
Remove when: these releases are no longer supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.ends.ends import tokenizer_of


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Adds the special tokens to plain prompts. Raises Refused if a conversation ends with the assistant."""
    prompts = trainer.train_dataset["prompt"]
    if not isinstance(prompts[0], str):
        _refuse_begun_answers(prompts)
        return ""
    tokenizer = tokenizer_of(trainer)
    added = len(tokenizer("")["input_ids"])
    if added:
        keep_special_tokens(tokenizer)
    return f"{added} special tokens in each prompt" if added else ""


def keep_special_tokens(tokenizer: Any) -> None:
    """Makes the tokenizer add its special tokens even if called without them; nothing else changes."""
    kind = type(tokenizer)

    def call(self: Any, *given: Any, **named: Any) -> Any:
        return kind.__call__(self, *given, **{**named, "add_special_tokens": True})

    tokenizer.__class__ = type(kind.__name__, (kind,), {"__call__": call})


def _refuse_begun_answers(prompts: Any) -> None:
    for row, prompt in enumerate(prompts):
        if prompt[-1]["role"] == "assistant":
            raise Refused.of(
                f"dataset: the prompt of row {row + 1} ends with an assistant message",
                because="this TRL lets the model continue it; the newest TRL starts a new message after it",
                fix="end prompts with a user message",
            )
