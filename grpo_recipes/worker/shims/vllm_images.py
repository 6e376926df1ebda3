"""Passes vLLM prompts with images so that it generates from the same tokens as the loss.

Defect: TRL passes vLLM a prompt in which each image already has all its tokens. vLLM expects one token per image and
expands it again: it silently generates from 42 tokens where the loss has 36. It also samples the image token, which TRL
suppresses only for transformers. And it caches the output of its vision part for each image: with new weights TRL
clears vLLM's cache of prompts, but not this one.
Seen: trl 1.16.0 (VLLMGeneration.generate and sync_weights, colocate) with vllm 0.31.0.
Remove when: TRL passes vLLM prompts with one token per image, and clears vLLM's encoder cache.
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
"""The bias for a logit that must not be sampled, the smallest that vLLM accepts."""
_SHOWN = 3


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Wraps the trainer's tokenization of prompts, vLLM's generate and the weight sync."""
    engine, generation = vllm_engine(trainer), trainer.vllm_generation
    prompts = _ImagePrompts(trainer)
    trainer._tokenize_prompts = prompts.noted(trainer._tokenize_prompts)
    engine.generate = prompts.answered(engine.generate)
    generation.sync_weights = _forgetting_images(generation.sync_weights, engine)
    token = getattr(trainer.model.config, "image_token_id", None)
    if token is not None:
        known = generation.generation_kwargs
        generation.generation_kwargs = {**known, "logit_bias": {**known.get("logit_bias", {}), token: NEVER}}
    return "vLLM inserts the image tokens itself, and they are compared with the loss"


class _ImagePrompts:
    """Maps the loss's tokens of a prompt to the tokens without inserted images."""

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
        """Tokenizes rendered conversations as the processor does, without inserting images.

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
        """Wraps the engine's `generate`. Raises Refused for the first prompt that differs from the loss's."""

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
            "vLLM and the loss have different prompts",
            because=[
                f"with images the loss has {len(of_loss)} tokens, and vLLM {len(of_vllm)}",
                f"beginning at token {place + 1}, the loss has {loss}, vLLM {vllm}",
            ],
            fix="use_vllm: false; or releases of trl, transformers and vllm that docs/images.md names",
        )


def _forgetting_images(sync_weights: Callable[[], None], engine: Any) -> Callable[[], None]:
    @functools.wraps(sync_weights)
    def synchronized() -> None:
        sync_weights()
        engine.llm_engine.reset_encoder_cache()

    return synchronized
