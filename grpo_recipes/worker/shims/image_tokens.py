"""Keeps the policy from sampling the token of an image.

Defect: each token of an image in the input is replaced by a part of an image. TRL lets the policy sample that token,
and the loss then stops at a completion with one, as there are fewer parts than tokens. From 1.16 on TRL suppresses it
in generation, but `suppress_tokens` in generation_kwargs replace those of TRL.
Seen: Idefics3 and LLaVA-NeXT with trl 0.24.0, 0.26.2 and 0.29.1 and transformers 4.57.6; trl 1.16.0 with
suppress_tokens.
Remove when: trl before 1.16 is no longer supported, and TRL adds its own token to those that are given.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Suppresses the token beside those that are suppressed already; nothing for a model that names none."""
    token = getattr(trainer.model.config, "image_token_id", None)
    if token is None:
        return ""
    before = trainer.generation_config.suppress_tokens or []
    trainer.generation_config.suppress_tokens = [*before, *({token} - {*before})]
    return f"token {token} of an image is never sampled"
