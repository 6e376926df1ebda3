"""Seconds of a generation: each new token reads the weights, and all keys and values, from memory."""

import math

from grpo_recipes.duration.between import Between
from grpo_recipes.duration.flops import prompt_flops, token_flops
from grpo_recipes.duration.gpu import TimedGpu, compute_seconds, reading_seconds, starting_seconds, together
from grpo_recipes.duration.shares import TRANSFORMERS_BANDWIDTH, VLLM_BANDWIDTH, VLLM_LAYER_S
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_VLLM_WIDTH = 2
_PACKED = 0.5
"""Bytes of a weight in four bits, without its scales."""


def transformers_seconds(gpu: TimedGpu, architecture: Architecture, update: Update, sequences: int) -> Between:
    """So many sequences of one process, all at once, until the longest is done.

    An adapter's model generates in the type of its weights: PEFT's generate calls the model within, which accelerate
    gave no autocast (peft 0.21.2, peft_model.py: generate; accelerate 1.15.0, accelerator.py: prepare_model).
    """
    width = update.width if update.trains_weights() else update.weight_width
    size = weight_traffic(architecture, update, sequences) + cache_traffic(architecture, update, sequences)
    token = together(
        starting_seconds(architecture, update),
        reading_seconds(gpu, size, TRANSFORMERS_BANDWIDTH),
        compute_seconds(gpu, token_flops(architecture, update, sequences), width),
    )
    prompts = compute_seconds(gpu, prompt_flops(architecture, update, sequences), width)
    return token.times(update.completion).plus(prompts)


def vllm_seconds(
    gpu: TimedGpu, architecture: Architecture, update: Update, sequences: int, group: int, gpus: int, held: int
) -> Between:
    """So many sequences of one engine on so many GPUs, in 16 bits, the adapter merged; sent between them at no cost.

    group: sequences with the same prompt, which is computed once at best. held: sequences that the cache has room for;
    at worst the others wait until these are done.
    """
    plain, rounds = update._replace(adapter=None, four_bits=None), math.ceil(sequences / held)
    once, waiting = (
        _vllm_token(gpu, architecture, plain, at_once, gpus) for at_once in (sequences, math.ceil(sequences / rounds))
    )
    tokens = Between(once.least, waiting.most * rounds).times(update.completion)
    prompts = compute_seconds(gpu, prompt_flops(architecture, plain, sequences) / gpus, _VLLM_WIDTH)
    return tokens.plus(Between(prompts.least / min(group, sequences), prompts.most))


def cache_numbers(architecture: Architecture) -> int:
    """The keys and values of one token."""
    return 2 * architecture.layers * architecture.key_value_heads * architecture.head_dim


def _vllm_token(gpu: TimedGpu, architecture: Architecture, plain: Update, sequences: int, gpus: int) -> Between:
    numbers = _read_parameters(architecture, sequences) + sequences * _looked_at(architecture, plain)
    return together(
        VLLM_LAYER_S.times(architecture.layers),
        reading_seconds(gpu, _VLLM_WIDTH * numbers / gpus, VLLM_BANDWIDTH),
        compute_seconds(gpu, token_flops(architecture, plain, sequences) / gpus, _VLLM_WIDTH),
    )


def _looked_at(architecture: Architecture, update: Update) -> float:
    """The keys and values that a new token looks back on, in the mean of a completion's."""
    seen = architecture.held_tokens(update.prompt + update.completion / 2)
    return seen * cache_numbers(architecture) / architecture.layers


def _read_parameters(architecture: Architecture, sequences: int) -> int:
    """The weights that a new token of so many sequences needs; an embedding is read by the row."""
    return architecture.layers * _layer_parameters(architecture, sequences) + _output_parameters(architecture)


def _output_parameters(architecture: Architecture) -> int:
    return architecture.vocabulary * architecture.hidden


def _layer_parameters(architecture: Architecture, sequences: int) -> int:
    """The weights of one layer that are read: of the experts as many as the sequences may go to."""
    experts = architecture.experts
    if experts is None:
        return architecture.linear_parameters()
    seen = min(experts.number, sequences * experts.per_token) / experts.number
    return architecture.linear_parameters() + round(seen * architecture.expert_parameters())


def weight_traffic(architecture: Architecture, update: Update, sequences: int) -> float:
    """Bytes that go through memory for the weights, for one new token of so many sequences.

    Autocast copies them for each token, so that they are read, written and read. Four bits are unpacked for each token
    of more than one sequence (bitsandbytes 0.50.2, autograd/_functions.py: matmul_4bit).
    """
    each: float = update.weight_width
    if update.trains_weights() and update.casts_weights:
        each += 2 * update.width
    packed = each
    if update.four_bits is not None:
        packed = _PACKED + (2 * update.four_bits.compute_width if sequences > 1 else 0)
    linear = architecture.layers * architecture.linear_parameters()
    rest = _read_parameters(architecture, sequences) - linear
    adapter = 0 if update.adapter is None else update.adapter.parameters(architecture) * update.adapter.width
    return packed * linear + each * rest + architecture.layers * adapter


def cache_traffic(architecture: Architecture, update: Update, sequences: int) -> float:
    """Bytes that go through memory for keys and values: each new token copies them, and attention reads the copy.

    With a mask, and so with prompts of several lengths, heads that share keys get copies of their own. Source:
    transformers 5.23.0, cache_utils.py: DynamicLayer; integrations/sdpa_attention.py: use_gqa_in_sdpa.
    """
    groups = architecture.heads // architecture.key_value_heads
    repeats = update.attention == "eager" or (update.attention == "sdpa" and update.is_padded)
    passes = 3 + (2 * groups if repeats and groups > 1 else 0)
    return passes * sequences * _looked_at(architecture, update) * update.weight_width
