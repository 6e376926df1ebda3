"""The policy answers prompts, in evaluation mode, without leaving a trace in the training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import GenerationConfig, set_seed
from trl.models import unwrap_model_for_generation

from grpo_recipes.worker.random_state import kept_random_state


@contextmanager
def undisturbed(trainer: Any) -> Iterator[None]:
    """Puts the model into evaluation mode; afterwards each module's mode and all generators are as before."""
    modules = list(trainer.model_wrapped.modules())
    modes = [module.training for module in modules]
    with kept_random_state(), torch.no_grad():
        # The same draws at each evaluation, others on each rank.
        set_seed(trainer.args.seed + trainer.accelerator.process_index)
        trainer.model_wrapped.eval()
        try:
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode


def answers(trainer: Any, prompts: list[Any], *, greedy: bool, batch_size: int) -> tuple[list[Any], list[list[int]]]:
    """One completion for each prompt, and its tokens with the one that ends it.

    A completion has the shape that TRL gives to rewards: a string, or a list of one message.
    prompts: all strings or all conversations. Ranks must pass equally many, since weights may be gathered.
    """
    ids: list[list[int]] = []
    tokens: list[list[int]] = []
    configuration = generation_config(trainer, greedy=greedy)
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
    ) as model:
        for start in range(0, len(prompts), batch_size):
            prompt_ids = _prompt_ids(trainer, prompts[start : start + batch_size])
            ids += prompt_ids
            tokens += _continued(trainer, model, prompt_ids, configuration)
    return _completions(trainer, prompts, ids, tokens), tokens


def generation_config(trainer: Any, *, greedy: bool) -> Any:
    """The sampling of the training's rollouts, or its most likely tokens.

    Everything that the arguments name is given, so that the model's own generation_config.json changes none
    of it.
    """
    arguments, tokenizer = trainer.args, _tokenizer(trainer)
    keywords: dict[str, Any] = {
        "max_new_tokens": arguments.max_completion_length,
        "do_sample": True,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": end_tokens(trainer),
        "temperature": arguments.temperature,
        "top_p": arguments.top_p,
        "top_k": arguments.top_k,
        "min_p": arguments.min_p,
        "repetition_penalty": arguments.repetition_penalty,
        "cache_implementation": arguments.cache_implementation,
        **(arguments.generation_kwargs or {}),
    }
    if greedy:
        # transformers warns of sampling values other than its own defaults when nothing is sampled
        keywords.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50, min_p=None)
    return GenerationConfig(**keywords, disable_compile=True)


def end_tokens(trainer: Any) -> list[int]:
    """The tokens that end a completion, as for TRL: the tokenizer's and those the model declares."""
    declared = trainer.model.generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = _tokenizer(trainer).eos_token_id
    return ends if own in ends else [own, *ends]


def _tokenizer(trainer: Any) -> Any:
    return getattr(trainer.processing_class, "tokenizer", trainer.processing_class)


def _prompt_ids(trainer: Any, prompts: list[Any]) -> list[list[int]]:
    if isinstance(prompts[0], str):
        return list(trainer.processing_class(text=prompts)["input_ids"])
    tokenized = trainer.processing_class.apply_chat_template(
        conversation=prompts,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **(trainer.args.chat_template_kwargs or {}),
    )
    return list(tokenized["input_ids"])


def _continued(trainer: Any, model: Any, prompt_ids: list[list[int]], configuration: Any) -> list[list[int]]:
    """The new tokens of each prompt, up to and with the first end token. Inputs: (B, P), padded left."""
    width = max(len(ids) for ids in prompt_ids)
    padding = _tokenizer(trainer).pad_token_id
    device = trainer.accelerator.device
    padded = torch.tensor([[padding] * (width - len(ids)) + list(ids) for ids in prompt_ids], device=device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompt_ids], device=device)
    new = model.generate(input_ids=padded, attention_mask=mask, generation_config=configuration)[:, width:]
    ends = set(end_tokens(trainer))
    return [_cut(tokens, ends) for tokens in new.tolist()]


def _cut(tokens: list[int], ends: set[int]) -> list[int]:
    for place, token in enumerate(tokens):
        if token in ends:
            return tokens[: place + 1]
    return tokens


def _completions(trainer: Any, prompts: list[Any], ids: list[list[int]], tokens: list[list[int]]) -> list[Any]:
    if isinstance(prompts[0], str):
        return list(trainer.processing_class.batch_decode(tokens, skip_special_tokens=True))
    tokenizer = _tokenizer(trainer)
    if any(getattr(tokenizer, name, None) is not None for name in ("response_template", "response_schema")):
        from trl.chat_template_utils import parse_response

        return [[parse_response(tokenizer, new, prefix=old)] for old, new in zip(ids, tokens, strict=True)]
    texts = trainer.processing_class.batch_decode(tokens, skip_special_tokens=True)
    return [[{"role": "assistant", "content": text}] for text in texts]
