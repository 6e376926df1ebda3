"""Gives vLLM the same prompt tokens that its completions are scored with.

Defect: TRL before 0.19 cuts the token ids of a long prompt to max_prompt_length but silently sends vLLM the whole text,
so a completion is scored with a different prompt than it was generated from.
Seen: trl 0.14.0 to 0.18.2, prompts_text in compute_loss, _prepare_inputs and _generate_and_score_completions.
Remove when: TRL below 0.19 is no longer supported.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import vllm_client, vllm_engine
from grpo_recipes.worker._shared.replacing import Refused

SHOWN = 60


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Cuts prompts to their last `value` tokens, as the trainer counts them, before vLLM sees them."""
    length, engine, client = int(str(value)), vllm_engine(trainer), vllm_client(trainer)
    if engine is not None:
        trainer.seams.change("engine generates", "prompts of vLLM", functools.partial(_with_tokens, trainer, length))
    if client is not None:
        trainer.seams.change("server generates", "prompts of vLLM", functools.partial(_with_texts, trainer, length))
    return f"vLLM gets the last {length} tokens of a prompt"


def _with_tokens(
    trainer: Any, length: int, generate: Callable[..., Any], prompts: Sequence[str], *given: Any, **named: Any
) -> Any:
    """Asks vLLM in this process, which accepts token ids instead of text."""
    tokens = [{"prompt_token_ids": ids[-length:]} for ids in _ids(trainer, prompts)]
    return generate(tokens, *given, **named)


def _with_texts(
    trainer: Any, length: int, generate: Callable[..., Any], prompts: Sequence[str], *given: Any, **named: Any
) -> Any:
    """Asks TRL's server, which accepts only text and tokenizes it with special tokens."""
    rows = zip(prompts, _ids(trainer, prompts), strict=True)
    texts = [text if len(ids) <= length else _text(trainer, text, ids[-length:]) for text, ids in rows]
    return generate(texts, *given, **named)


def _ids(trainer: Any, prompts: Sequence[str]) -> list[list[int]]:
    """Returns each prompt's token ids, made as the trainer makes them."""
    return list(trainer.processing_class(text=list(prompts), add_special_tokens=False)["input_ids"])


def _text(trainer: Any, prompt: str, ids: list[int]) -> str:
    """Returns the text that the server tokenizes to these ids. Raises Refused if it would get different ids."""
    tokenizer = trainer.processing_class
    text = str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
    read = list(tokenizer(text=text)["input_ids"])
    if read != ids:
        raise Refused.of(
            f"a prompt cannot be cut to its last {len(ids)} tokens for the vLLM server: {prompt[:SHOWN]!r}...",
            because=f"this TRL sends the server text, and the cut prompt becomes {len(read)} tokens that begin with "
            f"{tokenizer.convert_ids_to_tokens(read[:3])}, not {tokenizer.convert_ids_to_tokens(ids[:3])}",
            fix="a larger generation.max_prompt_length, or trl 0.29.1",
        )
    return text
