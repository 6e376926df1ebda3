"""What making completions holds: the cache of keys and values, and vLLM's share."""

from grpo_recipes.memory.decoder_layer import layer_held
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_LOGIT_COPIES = 4
_GRAPHS = 3 * 2**29


def cache_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """Keys and values of all layers for whole sequences. Source: transformers 5.23.0, cache_utils.py: DynamicLayer."""
    each = 2 * architecture.key_value_heads * architecture.head_dim * update.weight_width
    return round(sequences * architecture.held_tokens(update.length, at_once=update.prompt)) * each


def generation_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """What computing holds beside the cache: the prompts in one layer at first, or the probabilities of a token.

    Each new token copies one layer's keys and values (transformers 5.23.0, cache_utils.py: torch.cat) and makes
    float32 copies of the logits (generation/utils.py: _sample).
    """
    prompts = update._replace(batch=sequences, completion=0, autocast_width=None)
    first = layer_held(architecture, prompts, needs_gradient=False).passing
    copied = cache_bytes(architecture._replace(windows=None), update, sequences) // architecture.layers
    return max(first, copied + _LOGIT_COPIES * 4 * sequences * architecture.vocabulary)


def vllm_bytes(layout: Layout, gpu_bytes: int | None, needed: int) -> int:
    """What vLLM takes in a training process: its share of the GPU, or what it needs where either is not known.

    Source: vllm 0.30.0, v1/worker/gpu_worker.py: determine_available_memory.
    """
    return needed if gpu_bytes is None or layout.vllm_share is None else round(layout.vllm_share * gpu_bytes)


def vllm_needs(architecture: Architecture, update: Update, layout: Layout) -> int:
    """The weights in 16 bits and the cache of the sequences that it is given, by the GPUs of one engine.

    Windows are left out: how vLLM lays out a cache of two kinds of layers was not looked into, it takes no more.
    """
    sequences = layout.sequences * layout.vllm_ranks
    cache = cache_bytes(architecture._replace(windows=None), update._replace(weight_width=2), sequences)
    return (2 * architecture.parameters() + cache) // layout.vllm_ranks


def vllm_left_bytes() -> int:
    """What a sleeping engine leaves: CUDA graphs and its own context; an allowance of 1.5 GiB, not measured here."""
    return _GRAPHS
