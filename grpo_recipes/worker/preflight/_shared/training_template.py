"""The chat template that TRL renders with where there are tools."""

from typing import Any


def training_template(tokenizer: Any) -> str | None:
    """The one with which this TRL goes on as it began; None for the tokenizer's own.

    Raises what TRL raises for a template that it does not know. Source: trl 1.16.0 grpo_trainer.py (__init__).
    """
    from trl import chat_template_utils as trl

    if tokenizer.chat_template is None or trl.is_chat_template_prefix_preserving(tokenizer):
        return None
    found: str | None = trl.get_training_chat_template(tokenizer)
    return found
