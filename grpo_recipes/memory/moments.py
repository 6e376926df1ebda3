"""The moments of an update at which most is held, and what is held then."""

from functools import cache
from typing import NamedTuple

from grpo_recipes.memory.decoder_layer import layer_held, norm
from grpo_recipes.memory.layout import (
    Layout,
    optimizer_bytes,
    optimizer_step_bytes,
    trained_parameters,
    trained_width,
    weight_bytes,
)
from grpo_recipes.memory.linear import output_held
from grpo_recipes.memory.tape import Held, Tape
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_INTEGER = 8


class Decoder(NamedTuple):
    """What the layers hold: the first, each other one, the last norm; and what all of them share."""

    first: Held
    other: Held
    last_norm: Held
    layers: int
    between: int
    shared: int
    is_checkpointing: bool

    def kept(self) -> int:
        """What is kept from the end of the forward pass for the backward pass."""
        if self.is_checkpointing:
            return self.layers * self.between + self.last_norm.kept + self.shared
        return self.first.kept + (self.layers - 1) * self.other.kept + self.last_norm.kept

    def embedded(self) -> int:
        """The first hidden states, which a variable of the model holds, where nothing keeps them."""
        return 0 if self.is_checkpointing or self.first.keeps_input else self.between

    def variables(self) -> int:
        """What the code of the decoder still holds at its end, and is not kept: its first, last and normed states."""
        return self.embedded() + self.between + (0 if self.last_norm.keeps_input else self.between)

    def forward(self) -> int:
        """The most during the forward pass."""
        before = (self.layers - 1) * self.between if self.is_checkpointing else self.kept_before_last()
        layer = self.other.passing if self.is_checkpointing else self.other.forward
        in_norm = self.kept() - self.last_norm.kept + self.last_norm.forward
        return self.shared + self.embedded() + max(before + layer, in_norm)

    def kept_before_last(self) -> int:
        """What all layers but the last keep."""
        return self.first.kept + (self.layers - 2) * self.other.kept if self.layers > 1 else 0

    def backward(self, gradients_of_a_layer: int) -> int:
        """The most during the backward pass; gradients_of_a_layer: that come into being as it goes on, 0 if all are."""
        if self.is_checkpointing:
            again = self.between + max(self.other.forward, self.other.backward)
            steps = (((self.layers - 1) * self.between, 1), (0, self.layers))
            layers = [kept + again + many * gradients_of_a_layer for kept, many in steps]
            return self.shared + max(*layers, self.layers * self.between + self.last_norm.backward)
        at_last = self.kept_before_last() + self.other.backward + gradients_of_a_layer
        at_first = self.first.backward + self.layers * gradients_of_a_layer
        at_norm = self.kept() - self.last_norm.kept + self.last_norm.backward
        return max(at_last, at_first, at_norm)


class Moments(NamedTuple):
    """The bytes of one update by term, and at each moment, the states with them.

    has_gradients: an earlier micro-batch of the step has made all gradients.
    """

    weights: int
    adapter: int
    gradients: int
    optimizer: int
    activations: int
    forward: int
    output_forward: int
    output_backward: int
    backward: int
    step: int
    has_gradients: bool

    def in_order(self) -> tuple[tuple[int, bool], ...]:
        """The bytes at each moment, and whether all gradients are among them."""
        first = (self.forward, self.output_forward, self.output_backward, self.backward)
        return (*((moment, self.has_gradients) for moment in first), (self.step, True))

    def peak(self) -> int:
        """The most at any moment."""
        return max(moment for moment, _ in self.in_order())


@cache
def moments(architecture: Architecture, update: Update) -> Moments | None:
    """What an update holds; None for an optimizer that is not known."""
    trained, width = trained_parameters(architecture, update), trained_width(update)
    optimizer = optimizer_bytes(update.optimizer, trained, width)
    if optimizer is None:
        return None
    decoder, output = decoder_held(architecture, update), output_held(architecture, update)
    weights, gradients = weight_bytes(architecture, update), trained * width
    adapter = gradients if update.adapter is not None else 0
    there = weights + adapter + optimizer + (gradients if update.accumulation > 1 else 0) + _batch(update)
    cached = _cached_copies(architecture, update)
    kept, shared = decoder.kept(), decoder.shared if not update.is_checkpointing else 0
    return Moments(
        weights=weights,
        adapter=adapter,
        gradients=gradients,
        optimizer=optimizer,
        activations=kept + shared + decoder.variables() + cached,
        forward=there + decoder.forward() + cached,
        output_forward=there + kept + decoder.between + cached + output.forward,
        output_backward=there + kept + _kept_copies(update, cached) + output.backward,
        backward=there + output.left + _kept_copies(update, cached) + _decoder_backward(architecture, update, decoder),
        step=weights + adapter + optimizer + gradients + optimizer_step_bytes(update.optimizer, trained, width),
        has_gradients=update.accumulation > 1,
    )


@cache
def scoring_bytes(architecture: Architecture, update: Update) -> int:
    """What a forward pass that keeps nothing holds beside the states: for old probabilities and the reference.

    Source: trl 1.16.0, trainer/grpo_trainer.py: _generate_and_score_completions, in micro-batches of the update.
    """
    decoder, output = decoder_held(architecture, update), output_held(architecture, update)
    layer = decoder.shared + decoder.between + max(decoder.other.passing, decoder.last_norm.passing)
    copies = _cached_copies(architecture, update._replace(is_checkpointing=True))
    return copies + max(layer, 2 * decoder.between + output.forward) + _batch(update)


def _decoder_backward(architecture: Architecture, update: Update, decoder: Decoder) -> int:
    """The most during the backward pass of the decoder, and of the embedding after it.

    The first micro-batch of a step makes gradients as it goes; the next ones have all of them, and make another for
    the time that it takes to add it.
    """
    width, words = trained_width(update), architecture.vocabulary * architecture.hidden
    is_first = update.accumulation == 1
    if not update.trains_weights():
        trained = trained_parameters(architecture, update) * width
        return decoder.backward(trained // architecture.layers if is_first else 0)
    of_output = words * width * (is_first and not architecture.is_tied)
    of_a_layer = architecture.layer_parameters() * width * is_first
    at_embedding = architecture.layers * of_a_layer + words * width + decoder.between
    return of_output + max(decoder.backward(of_a_layer), at_embedding)


@cache
def decoder_held(architecture: Architecture, update: Update) -> Decoder:
    """What the layers of a model hold in an update.

    Source of what a checkpointed layer keeps, its input: torch 2.13.0, utils/checkpoint.py.
    """
    tape = Tape()
    count = update.tokens * architecture.hidden
    last = tape.tensor(count, update.weight_width, True)
    norm(tape, update, last, architecture.hidden, architecture.style.scales_wide)
    has_input_gradient = update.trains_weights() or update.is_checkpointing
    other = layer_held(architecture, update)
    return Decoder(
        first=other if has_input_gradient else layer_held(architecture, update, needs_gradient=False),
        other=other,
        last_norm=tape.held(),
        layers=architecture.layers,
        between=count * update.weight_width,
        shared=_shared(architecture, update),
        is_checkpointing=update.is_checkpointing,
    )


def _shared(architecture: Architecture, update: Update) -> int:
    """The mask and the positions that all layers read; a mask for eager attention has the type of the hidden states.

    Layers with a window have their own. Source: transformers 5.23.0, masking_utils.py: sdpa_mask, eager_mask;
    models/gemma3/modeling_gemma3.py: Gemma3TextModel.forward, which makes both masks in any case.
    """
    windows, wide = architecture.windows, architecture.style.rotates_wide
    kinds = 2 if windows is not None and windows.layers < architecture.layers else 1
    width = {"sdpa": 1 if update.is_padded else 0, "eager": update.weight_width}.get(update.attention, 0)
    row = round(architecture.head_dim * architecture.style.rotated) * (4 if wide else update.weight_width)
    masks = update.batch * update.length**2 * width * (1 if windows is None else 2)
    return masks + 2 * kinds * update.length * row


def _cached_copies(architecture: Architecture, update: Update) -> int:
    """Copies of trained weights that autocast holds until the forward pass is over, beside those in the layers' tape.

    Source: torch 2.13.0, aten/src/ATen/autocast_mode.cpp: cached_cast.
    """
    if update.autocast_width in (None, trained_width(update)):
        return 0
    if update.adapter is not None:  # those of experts are added to the weights without autocast
        dense = architecture._replace(experts=None, intermediate=0) if architecture.experts else architecture
        return trained_parameters(dense, update) * update.width
    is_beside = update.casts_weights and update.is_checkpointing and update.caches_copies
    return architecture.layers * architecture.linear_parameters() * update.width * is_beside


def _kept_copies(update: Update, cached: int) -> int:
    """The copies that autograd keeps as well: an adapter's, unless its layer is computed again."""
    return cached if update.adapter is not None and not update.is_checkpointing else 0


def _batch(update: Update) -> int:
    """Token ids and masks of a micro-batch, apart and joined, and labels."""
    return 5 * update.tokens * _INTEGER


# What making completions holds: the cache of keys and values, and vLLM's share.


_LOGIT_COPIES = 4
VLLM_LEFT_BYTES = 3 * 2**29
"""What a sleeping engine leaves: CUDA graphs and its own context; an allowance of 1.5 GiB, not measured here."""


def cache_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """Keys and values of all layers for whole sequences. Source: transformers 5.23.0, cache_utils.py: DynamicLayer."""
    each = 2 * architecture.key_value_heads * architecture.head_dim * update.weight_width
    return round(sequences * architecture.held_tokens(update.length, at_once=update.prompt)) * each


def generation_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """What computing holds beside the cache: the prompts in one layer at first, or the probabilities of a token.

    Each new token copies one layer's keys and values (transformers 5.23.0, cache_utils.py: torch.cat) and makes
    float32 copies of the logits (generation/utils.py: _sample). A model that is trained whole generates under autocast,
    an adapted one does not (accelerate 1.15.0, accelerator.py: prepare_model).
    """
    prompts = update._replace(batch=sequences, completion=0, autocast_width=None)
    first = layer_held(architecture, prompts, needs_gradient=False).passing
    copied = cache_bytes(architecture._replace(windows=None), update, sequences) // architecture.layers
    casts = _cached_copies(architecture, update._replace(is_checkpointing=True)) if update.trains_weights() else 0
    return casts + max(first, copied + _LOGIT_COPIES * 4 * sequences * architecture.vocabulary)


def vllm_bytes(layout: Layout, gpu_bytes: int | None, needed: int) -> int:
    """What vLLM takes in a training process: its share of the GPU, or what it needs where either is not known.

    With a cache of a fixed size it takes no share. Source: vllm 0.31.0, v1/worker/gpu_worker.py:
    determine_available_memory.
    """
    if gpu_bytes is None or layout.vllm_share is None or layout.vllm_cache is not None:
        return needed
    return round(layout.vllm_share * gpu_bytes)


def vllm_needs(architecture: Architecture, update: Update, layout: Layout) -> int:
    """The weights in 16 bits and the cache of the sequences that it is given, by the GPUs of one engine.

    With a cache of a fixed size this one, and an allowance for what is outside of it.
    Windows are left out: how vLLM lays out a cache of two kinds of layers was not looked into, it takes no more.
    """
    if layout.vllm_cache is not None:
        return 2 * architecture.parameters() // layout.vllm_ranks + layout.vllm_cache + VLLM_LEFT_BYTES
    sequences = layout.sequences * layout.vllm_ranks
    cache = cache_bytes(architecture._replace(windows=None), update._replace(weight_width=2), sequences)
    return (2 * architecture.parameters() + cache) // layout.vllm_ranks
