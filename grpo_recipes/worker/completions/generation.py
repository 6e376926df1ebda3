"""Generates answers to prompts in evaluation mode without affecting the training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy
import torch
from trl.trainer.utils import pad

from grpo_recipes.contract.plan import Evaluation
from grpo_recipes.worker._shared.library import (
    generation_config,
    micro_batches_per_generation,
    model_for_generation,
    parse_response,
)
from grpo_recipes.worker.completions.held_out_environments import has_several
from grpo_recipes.worker.completions.row_draws import drawn_with, numbers_of
from grpo_recipes.worker.completions.tool_turns import RowTokens, tools_of, tools_of_row, with_tool_turns
from grpo_recipes.worker.completions.vllm_answers import AT_ONCE, continued_by_vllm, given_the_policy, seed_of_answer
from grpo_recipes.worker.ends.ends import Ends, tokenizer_of

Draws = list[tuple[int, int, int]]
"""Row and sample of each prompt, and how many tokens its completion already has."""
Continue = Callable[..., list[list[int]]]


def answers(
    trainer: Any,
    prompts: list[Any],
    how: Evaluation,
    ends: Ends,
    on_batch: Callable[[], None],
    draws: list[tuple[int, int]] | None = None,
    environments: list[Any] | None = None,
) -> tuple[list[Any], list[list[int]]]:
    """Returns one completion for each prompt, and its tokens including the one that ends it.

    A completion has the type that TRL passes to rewards: a string, or a list of messages, which is one message unless
    tools were called. prompts: all strings or all conversations. Ranks must pass equally many, since weights may be
    gathered. on_batch: called before each batch. draws: row and sample of each prompt, which alone seed its completion;
    None, for transformers only, draws all of a process from one generator. environments: of each prompt, whose methods
    the policy can call, or None.
    """
    completions: list[Any] = []
    tokens: list[list[int]] = []
    with _generator(trainer, how, ends) as (generate, size):
        for start in range(0, len(prompts), size):
            on_batch()
            of_batch = prompts[start : start + size]
            own = None if environments is None else environments[start : start + size]
            tokenized, beside = tokens_of_prompts(trainer, of_batch, own)
            prompt_ids = [list(row[-(how.max_prompt_length or 0) :]) for row in tokenized]
            of_rows = None if draws is None else draws[start : start + size]
            going_on = partial(generate, beside=beside) if beside else generate
            turn = partial(_turn, going_on, ends, [len(ids) for ids in prompt_ids], of_rows)
            new = turn([RowTokens(row, ids) for row, ids in enumerate(prompt_ids)])
            if tools_of(trainer):
                messages, new = with_tool_turns(trainer, of_batch, prompt_ids, new, turn, own)
                completions += messages
            else:
                completions += _completions(trainer, of_batch, prompt_ids, new)
            tokens += new
    return completions, tokens


def _turn(
    generate: Continue, ends: Ends, begin_at: list[int], draws: list[tuple[int, int]] | None, rows: list[RowTokens]
) -> list[list[int]]:
    """Continues the rows of a batch, each a prompt with the turns so far.

    begin_at: where the completion of each row begins; its random numbers continue after tool replies.
    """
    each = [] if draws is None else [(*draws[row.row], len(row) - begin_at[row.row]) for row in rows]
    return [new[: ends.first(new)] for new in generate(rows, each)]


@contextmanager
def _generator(trainer: Any, how: Evaluation, ends: Ends) -> Iterator[tuple[Continue, int]]:
    """Yields the function that continues prompts, and the batch size."""
    if how.generated_by == "vllm":
        arguments = trainer.args
        size = max(AT_ONCE, arguments.per_device_train_batch_size * micro_batches_per_generation(arguments))
        with given_the_policy(trainer, greedy=how.greedy):
            yield partial(_asked_of_vllm, trainer), size
        return
    configuration = _configuration(trainer, how.sampling, ends, greedy=how.greedy)
    with model_for_generation(trainer) as model:
        yield partial(_continue, trainer, model, configuration, ends), how.batch_size


def _asked_of_vllm(trainer: Any, prompt_ids: Sequence[list[int]], draws: Draws) -> list[list[int]]:
    seeds = [seed_of_answer(trainer.args.seed, row, sample) for row, sample, _ in draws]
    return continued_by_vllm(trainer, list(prompt_ids), seeds)


def _drawn(trainer: Any, draws: Draws) -> Any:
    if not draws:
        return nullcontext()
    seed, longest = trainer.args.seed, trainer.args.max_completion_length
    return drawn_with([numbers_of(seed, row, sample, used + longest)[used:] for row, sample, used in draws])


def _configuration(trainer: Any, sampling: dict[str, Any], ends: Ends, *, greedy: bool) -> Any:
    arguments, tokenizer = trainer.args, tokenizer_of(trainer)
    values = {**sampling, **_never_sampled(trainer), "do_sample": True}
    if greedy:
        # transformers warns about non-default sampling values if nothing is sampled
        values.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50, min_p=None)
    return generation_config(
        max_new_tokens=arguments.max_completion_length,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=list(ends.tokens),
        cache_implementation=getattr(arguments, "cache_implementation", None),
        **values,
    )


def _never_sampled(trainer: Any) -> dict[str, Any]:
    """Returns the tokens that a processor's policy never samples in training: the recipe's, and the image token."""
    if tokenizer_of(trainer) is trainer.processing_class:
        return {}
    config = getattr(trainer, "generation_config", None)
    token = getattr(trainer.model.config, "image_token_id", None)
    tokens = config.suppress_tokens if config is not None else None if token is None else [token]
    return {"suppress_tokens": tokens} if tokens else {}


def tokens_of_prompts(
    trainer: Any, prompts: list[Any], environments: list[Any] | None = None
) -> tuple[list[list[int]], dict[str, Any]]:
    """Returns the tokens of prompts with the generation prompt, and a processor's fields for images, {} without any.

    prompts: all strings or all conversations. environments: of each prompt. If there are several kinds, each prompt
    gets its own kind's tools.
    """
    if environments is not None and len(prompts) > 1 and has_several(trainer):
        rows = (([prompt], [environment]) for prompt, environment in zip(prompts, environments, strict=True))
        return [ids for row in rows for ids in tokens_of_prompts(trainer, *row)[0]], {}
    if isinstance(prompts[0], str):
        return list(trainer.processing_class(text=prompts)["input_ids"]), {}
    tokenized = trainer.processing_class.apply_chat_template(
        conversation=prompts,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **_as_with_tools(trainer, environments[0] if environments is not None and has_several(trainer) else None),
        **(getattr(trainer.args, "chat_template_kwargs", None) or {}),
    )
    beside = {name: value for name, value in tokenized.items() if name not in ("input_ids", "attention_mask")}
    return list(tokenized["input_ids"]), beside if "pixel_values" in beside else {}


def _as_with_tools(trainer: Any, environment: Any) -> dict[str, Any]:
    """Returns what TRL renders prompts with if there are tools: the tools, and the training template."""
    template = {"chat_template": getattr(trainer, "chat_template", None)} if tools_of(trainer) else {}
    tools = tools_of_row(trainer, environment)
    return {"tools": tools, **template} if tools else template


def _continue(
    trainer: Any,
    model: Any,
    configuration: Any,
    ends: Ends,
    prompt_ids: Sequence[list[int]],
    draws: Draws,
    beside: Mapping[str, Any] | None = None,
) -> list[list[int]]:
    """Returns the new tokens of each prompt, with transformers' padding. Inputs: (B, P), left-padded.

    beside: fields of their images; fields with a value per token are padded like the tokens.
    """
    width = max(len(ids) for ids in prompt_ids)
    padding = tokenizer_of(trainer).pad_token_id
    device = trainer.accelerator.device
    padded = torch.tensor([[padding] * (width - len(ids)) + list(ids) for ids in prompt_ids], device=device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompt_ids], device=device)
    fields = {name: as_tensor(value).to(device) for name, value in (beside or {}).items()}
    with _drawn(trainer, draws):
        new = model.generate(
            input_ids=padded,
            attention_mask=mask,
            **fields,
            generation_config=configuration,
            stopping_criteria=ends.criteria(),
        )[:, width:]
    return [list(row) for row in new.tolist()]


def as_tensor(value: Any) -> torch.Tensor:
    """Returns a processor's field as a tensor. Source: trl 0.29.1, 1.16.0 grpo_trainer.py (_generate_single_turn)."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        padded: torch.Tensor = pad([torch.tensor(numpy.array(row)) for row in value], 0, "left")
        return padded
    return value if isinstance(value, torch.Tensor) else torch.tensor(numpy.array(value))


def _completions(trainer: Any, prompts: list[Any], ids: list[list[int]], tokens: list[list[int]]) -> list[Any]:
    if isinstance(prompts[0], str):
        return list(trainer.processing_class.batch_decode(tokens, skip_special_tokens=True))
    tokenizer = tokenizer_of(trainer)
    parsed = [parse_response(tokenizer, new, old) for old, new in zip(ids, tokens, strict=True)]
    if all(message is not None for message in parsed):
        return [[message] for message in parsed]
    texts = trainer.processing_class.batch_decode(tokens, skip_special_tokens=True)
    return [[{"role": "assistant", "content": text}] for text in texts]
