"""Breaks the shim `vllm_images`, and the inputs that TRL gives to vLLM."""

import os
from types import ModuleType
from typing import Any

VARIABLE = "GRPO_TEST_IMAGES"
OTHER_PROMPT = 8
"""The offset in rows to a different prompt's images."""


def break_in(module: ModuleType) -> None:
    """Replaces a part of the shim. Raises KeyError for an unknown name."""
    word = os.environ.get(VARIABLE)
    if word is not None:
        BROKEN[word](module)


def _tokens(module: Any) -> None:
    """Sends prompts to vLLM with expanded image tokens, as TRL does."""

    def noted(self: Any, tokenize: Any) -> Any:
        def tokenized(prompts: Any) -> Any:
            found = tokenize(prompts)
            self._short = {tuple(ids): list(ids) for ids in found[0]}
            return found

        return tokenized

    module._ImagePrompts.noted = noted


def _shown(module: Any) -> None:
    """Gives vLLM the images of different rows, after the shim."""
    real = module._ImagePrompts.answered

    def answered(self: Any, generate: Any) -> Any:
        def others(prompts: Any, *given: Any, **named: Any) -> Any:
            images = [one["multi_modal_data"] for one in prompts]
            moved = [*images[OTHER_PROMPT:], *images[:OTHER_PROMPT]]
            asked = [{**one, "multi_modal_data": image} for one, image in zip(prompts, moved, strict=True)]
            return generate(asked, *given, **named)

        return real(self, others)

    module._ImagePrompts.answered = answered


def _given(module: Any) -> None:
    """Makes TRL give vLLM the images of different rows."""
    real = module.on_trainer

    def on_trainer(trainer: Any, value: object, plan: Any) -> str:
        generate = trainer.vllm_generation.generate

        def others(*, images: Any, **named: Any) -> Any:
            return generate(images=[*images[OTHER_PROMPT:], *images[:OTHER_PROMPT]], **named)

        trainer.vllm_generation.generate = others
        return str(real(trainer, value, plan))

    module.on_trainer = on_trainer


BROKEN = {"tokens": _tokens, "shown": _shown, "given": _given}
