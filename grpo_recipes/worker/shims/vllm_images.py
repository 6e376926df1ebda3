"""Passes vLLM prompts with images so that it generates from the same tokens as the loss.

Defect: TRL passes vLLM a prompt in which each image already has all its tokens. vLLM expects one token per image and
expands it again: it silently generates from 42 tokens where the loss has 36. It also samples the image token, which TRL
suppresses only for transformers. And it caches the output of its vision part for each image: with new weights TRL
clears vLLM's cache of prompts, but not this one.
Seen: trl 1.16.0 (VLLMGeneration.generate and sync_weights, colocate) with vllm 0.31.0.
Remove when: TRL passes vLLM prompts with one token per image, and clears vLLM's encoder cache.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trl.data_utils import prepare_multimodal_messages

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import vllm_engine
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.ends.ends import tokenizer_of

NEVER = -100.0
"""The bias for a logit that must not be sampled, the smallest that vLLM accepts."""
_SHOWN = 3


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Stands around the trainer's tokenization of prompts, vLLM's generate and the weight sync."""
    engine, generation = vllm_engine(trainer), trainer.vllm_generation
    prompts = _ImagePrompts(trainer)
    trainer.seams.observe("prompts are tokenized", "prompts of vLLM", prompts.note)
    trainer.seams.change("engine generates", "prompts of vLLM", prompts.generate)
    trainer.seams.observe("vLLM gets weights", "images", lambda _: engine.llm_engine.reset_encoder_cache())
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

    def note(self, output: Any, prompts: Any) -> None:
        """Observes `_tokenize_prompts`."""
        ids, images, _ = output
        self._short = {} if images is None else dict(zip(map(tuple, ids), self._without(prompts), strict=True))

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

    def generate(self, generate: Callable[..., Any], prompts: Sequence[Any], *given: Any, **named: Any) -> Any:
        """Stands around the engine's generate. Raises Refused for the first prompt that differs from the loss's."""
        asked = [
            {**prompt, "prompt_token_ids": self._short[tuple(prompt["prompt_token_ids"])]}
            if "multi_modal_data" in prompt
            else prompt
            for prompt in prompts
        ]
        answers = generate(asked, *given, **named)
        for prompt, answer in zip(prompts, answers, strict=True):
            self._compare(list(prompt["prompt_token_ids"]), list(answer.prompt_token_ids))
        return answers

    def _compare(self, of_loss: list[int], of_vllm: list[int]) -> None:
        if of_loss == of_vllm:
            return
        pairs = enumerate(zip(of_loss, of_vllm, strict=False))
        index = next((at for at, (token, other) in pairs if token != other), min(len(of_loss), len(of_vllm)))
        name = tokenizer_of(self._trainer).convert_ids_to_tokens
        loss, vllm = (name(ids[index : index + _SHOWN]) for ids in (of_loss, of_vllm))
        raise Refused.of(
            "vLLM and the loss have different prompts",
            because=[
                f"with images the loss has {len(of_loss)} tokens, and vLLM {len(of_vllm)}",
                f"beginning at token {index + 1}, the loss has {loss}, vLLM {vllm}",
            ],
            fix="use_vllm: false; or releases of trl, transformers and vllm that docs/images.md names",
        )
