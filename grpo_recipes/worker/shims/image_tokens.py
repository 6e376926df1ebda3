"""Keeps the policy from sampling the image token.

Defect: each image token in the input is replaced by a part of an image. TRL lets the policy sample that token, and the
loss then fails on the completion, since it has more tokens than parts. Since 1.16 TRL suppresses it in generation, but
`suppress_tokens` in generation_kwargs replace those of TRL.
Seen: Idefics3 and LLaVA-NeXT with trl 0.24.0, 0.26.2 and 0.29.1 and transformers 4.57.6; trl 1.16.0 with
suppress_tokens.
Remove when: trl before 1.16 is no longer supported, and TRL adds its token to the recipe's suppress_tokens.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Adds the token to those already suppressed; does nothing for a model that names none."""
    token = getattr(trainer.model.config, "image_token_id", None)
    if token is None:
        return ""
    before = trainer.generation_config.suppress_tokens or []
    trainer.generation_config.suppress_tokens = [*before, *({token} - {*before})]
    return f"image token {token} is never sampled"
