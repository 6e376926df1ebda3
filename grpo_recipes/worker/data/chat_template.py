"""The chat template of a run is a program too: it is tried on one prompt before TRL renders each batch with it."""

import contextlib
from typing import Any

from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.data.bounded import TooMuch, bounded


def refuse_endless_template(trainer: Any, rows: Any) -> None:
    """Raises Refused where the first prompt cannot be rendered within the limits; other faults are TRL's to say."""
    prompt = rows[0]["prompt"]
    if isinstance(prompt, str):
        return
    keywords = getattr(trainer.args, "chat_template_kwargs", None) or {}
    try:
        with contextlib.suppress(Exception), bounded():
            trainer.processing_class.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **keywords)
    except TooMuch as problem:
        raise Refused.of("the chat template cannot render the first prompt", because=str(problem)) from None
