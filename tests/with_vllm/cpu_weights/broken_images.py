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

    def note(self: Any, output: Any, _: Any) -> None:
        self._short = {tuple(ids): list(ids) for ids in output[0]}

    module._ImagePrompts.note = note


def _shown(module: Any) -> None:
    """Gives vLLM the images of different rows, after the shim."""
    real = module._ImagePrompts.generate

    def generate(self: Any, of_vllm: Any, *given: Any, **named: Any) -> Any:
        def others(prompts: Any, *more: Any, **options: Any) -> Any:
            images = [one["multi_modal_data"] for one in prompts]
            moved = [*images[OTHER_PROMPT:], *images[:OTHER_PROMPT]]
            asked = [{**one, "multi_modal_data": image} for one, image in zip(prompts, moved, strict=True)]
            return of_vllm(asked, *more, **options)

        return real(self, others, *given, **named)

    module._ImagePrompts.generate = generate


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
