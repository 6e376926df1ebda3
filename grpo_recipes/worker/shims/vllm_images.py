"""Gives vLLM prompts with images of which it makes the tokens of the loss.

Defect: TRL gives vLLM the tokens of a prompt in which each image has all its tokens. vLLM looks for one token of each
image and replaces it by all of them: it silently answers 42 tokens where the loss has 36. It samples the token of an
image, which TRL suppresses for transformers alone. And it keeps what its vision part made of an image: with new weights
TRL clears its cache of prompts, and not this one.
Seen: trl 1.16.0 (VLLMGeneration.generate and sync_weights, colocate) with vllm 0.31.0.
Remove when: TRL gives vLLM prompts before their images are put in, and clears the cache of its encoder.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trl.data_utils import prepare_multimodal_messages

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.library import vllm_engine
from grpo_recipes.worker.ends.ends import tokenizer_of

NEVER = -100.0
"""What vLLM adds to a logit that is not to be sampled, the least that it takes."""
_SHOWN = 3


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Stands before the trainer's tokens of prompts, vLLM's generations and the hand-over of weights."""
    engine, generation = vllm_engine(trainer), trainer.vllm_generation
    prompts = _ImagePrompts(trainer)
    trainer._tokenize_prompts = prompts.noted(trainer._tokenize_prompts)
    engine.generate = prompts.answered(engine.generate)
    generation.sync_weights = _forgetting_images(generation.sync_weights, engine)
    token = getattr(trainer.model.config, "image_token_id", None)
    if token is not None:
        known = generation.generation_kwargs
        generation.generation_kwargs = {**known, "logit_bias": {**known.get("logit_bias", {}), token: NEVER}}
    return "vLLM puts the tokens of images into prompts itself, and they are compared"


class _ImagePrompts:
    """The tokens of prompts before their images are put in, by those of the loss."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._short: dict[tuple[int, ...], list[int]] = {}

    def noted(self, tokenize: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps `_tokenize_prompts`."""

        @functools.wraps(tokenize)
        def tokenized(prompts: Any) -> Any:
            found = tokenize(prompts)
            ids, images, _ = found
            self._short = {} if images is None else dict(zip(map(tuple, ids), self._without(prompts), strict=True))
            return found

        return tokenized

    def _without(self, prompts: Sequence[Any]) -> list[list[int]]:
        """As the processor makes tokens of a rendered conversation, without images.

        Source: transformers 5.17.0 processing_utils.py, `ProcessorMixin.apply_chat_template`.
        """
        trainer, tokenizer = self._trainer, tokenizer_of(self._trainer)
        texts = trainer.processing_class.apply_chat_template(
            conversation=[prepare_multimodal_messages(prompt) for prompt in prompts],
            chat_template=trainer.chat_template,
            add_generation_prompt=True,
            tokenize=False,
            **trainer.chat_template_kwargs,
        )
        begins = tokenizer.bos_token is not None and texts[0].startswith(tokenizer.bos_token)
        return list(tokenizer(texts, add_special_tokens=not begins)["input_ids"])

    def answered(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the engine's `generate`. Raises Refused for the first prompt that is not that of the loss."""

        @functools.wraps(generate)
        def compared(prompts: Sequence[Any], *given: Any, **named: Any) -> Any:
            asked = [
                {**one, "prompt_token_ids": self._short[tuple(one["prompt_token_ids"])]}
                if "multi_modal_data" in one
                else one
                for one in prompts
            ]
            found = generate(asked, *given, **named)
            for one, answer in zip(prompts, found, strict=True):
                self._compare(list(one["prompt_token_ids"]), list(answer.prompt_token_ids))
            return found

        return compared

    def _compare(self, of_loss: list[int], of_vllm: list[int]) -> None:
        if of_loss == of_vllm:
            return
        pairs = enumerate(zip(of_loss, of_vllm, strict=False))
        place = next((at for at, (one, other) in pairs if one != other), min(len(of_loss), len(of_vllm)))
        name = tokenizer_of(self._trainer).convert_ids_to_tokens
        loss, vllm = (name(ids[place : place + _SHOWN]) for ids in (of_loss, of_vllm))
        raise Refused.of(
            "vLLM answered another prompt than the loss trains",
            because=[
                f"with its images the loss has {len(of_loss)} tokens, and vLLM made {len(of_vllm)} of it",
                f"from token {place + 1} on the loss has {loss}, vLLM {vllm}",
            ],
            fix="use_vllm: false; or releases of trl, transformers and vllm that docs/images.md names",
        )


def _forgetting_images(sync_weights: Callable[[], None], engine: Any) -> Callable[[], None]:
    @functools.wraps(sync_weights)
    def synchronized() -> None:
        sync_weights()
        engine.llm_engine.reset_encoder_cache()

    return synchronized
