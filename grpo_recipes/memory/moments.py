"""Finds the moments of an update with the most memory in use, and what is held then."""

from functools import cache
from typing import NamedTuple

from grpo_recipes.memory.decoder_layer import active_of, layer_held, norm, vision_layer_held, vision_norm
from grpo_recipes.memory.layout import (
    cache_bytes,
    linear_parameters,
    optimizer_bytes,
    optimizer_step_bytes,
    trained_parameters,
    trained_width,
    weight_bytes,
)
from grpo_recipes.memory.linear import linear, output_held, product
from grpo_recipes.memory.tape import Decoder, Held, Tape
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture, Vision

_INTEGER = 8


class Moments(NamedTuple):
    """Bytes of one update by term, and at each moment, including the states.

    has_gradients: an earlier micro-batch of the step has already allocated all gradients.
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
        """Returns the bytes at each moment, and whether they include all gradients."""
        first = (self.forward, self.output_forward, self.output_backward, self.backward)
        return (*((moment, self.has_gradients) for moment in first), (self.step, True))

    def peak(self) -> int:
        """Returns the peak over all moments."""
        return max(moment for moment, _ in self.in_order())


@cache
def moments(architecture: Architecture, update: Update) -> Moments | None:
    """Returns the memory of an update; None for an unknown optimizer."""
    trained, width = trained_parameters(architecture, update), trained_width(update)
    optimizer = optimizer_bytes(update.optimizer, trained, width)
    if optimizer is None:
        return None
    decoder, output = decoder_held(architecture, update), output_held(architecture, update)
    weights, gradients = weight_bytes(architecture, update), trained * width
    adapter = gradients if update.adapter is not None else 0
    there = weights + adapter + optimizer + (gradients if update.accumulation > 1 else 0) + _batch(update)
    cached = _cached_copies(architecture, update)
    decoder_kept, shared = decoder.kept(), decoder.shared if not update.is_checkpointing else 0
    tower = vision_held(architecture, update)
    # The second term is where images are inserted into the embeddings.
    vision_kept = 0 if tower is None else tower.kept() + update.tokens * architecture.hidden
    if tower is not None and update.trains_weights() and not update.is_checkpointing:
        vision_kept += tower.shared
    return Moments(
        weights=weights,
        adapter=adapter,
        gradients=gradients,
        optimizer=optimizer,
        activations=decoder_kept + shared + decoder.variables() + cached + vision_kept,
        forward=there + max(vision_kept + decoder.forward() + cached, 0 if tower is None else tower.forward()),
        output_forward=there + decoder_kept + decoder.between + cached + output.forward + vision_kept,
        output_backward=there + decoder_kept + _kept_copies(update, cached) + output.backward + vision_kept,
        backward=there
        + max(
            vision_kept + output.left + _kept_copies(update, cached) + _decoder_backward(architecture, update, decoder),
            0 if tower is None else _tower_backward(architecture, update, tower),
        ),
        step=weights + adapter + optimizer + gradients + optimizer_step_bytes(update.optimizer, trained, width),
        has_gradients=update.accumulation > 1,
    )


@cache
def scoring_bytes(architecture: Architecture, update: Update) -> int:
    """The memory of a no-grad forward pass beyond the states, for old log-probabilities and the reference.

    Source: trl, trainer/grpo_trainer.py: _generate_and_score_completions, in micro-batches of the update.
    """
    decoder, output = decoder_held(architecture, update), output_held(architecture, update)
    layer = decoder.shared + decoder.between + max(decoder.other.passing, decoder.last_norm.passing)
    copies = _cached_copies(architecture, update._replace(is_checkpointing=True))
    of_vision = vision_bytes(architecture, update, update.batch)
    return max(of_vision, copies + max(layer, 2 * decoder.between + output.forward)) + _batch(update)


def _decoder_backward(architecture: Architecture, update: Update, decoder: Decoder) -> int:
    """The peak during the backward pass of the decoder, and of the embedding after it.

    The first micro-batch of a step allocates gradients as it goes; later ones hold all of them, plus a temporary one
    while it is added.
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
    """The memory of a model's layers in an update.

    A checkpointed layer keeps its input; source: torch, utils/checkpoint.py.
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
        last_norm=tape.measure(),
        layers=architecture.layers,
        between=count * update.weight_width,
        shared=_mask_bytes(architecture, update),
        is_checkpointing=update.is_checkpointing,
    )


def _mask_bytes(architecture: Architecture, update: Update) -> int:
    """The mask and positions that all layers read; a mask for eager attention has the hidden states' type.

    Layers with a window have a separate mask. Source: transformers, masking_utils.py: sdpa_mask, eager_mask;
    models/gemma3/modeling_gemma3.py: Gemma3TextModel.forward, which always makes both masks.
    """
    windows, wide = architecture.windows, architecture.style.rotates_wide
    kinds = 2 if windows is not None and windows.layers < architecture.layers else 1
    width = {"sdpa": 1 if update.is_padded else 0, "eager": update.weight_width}.get(update.attention, 0)
    row = round(architecture.head_dim * architecture.style.rotated) * (4 if wide else update.weight_width)
    masks = update.batch * update.length**2 * width * (1 if windows is None else 2)
    return masks + 2 * kinds * update.length * row


def _cached_copies(architecture: Architecture, update: Update) -> int:
    """Copies of trained weights that autocast holds until the forward pass ends, beyond those on the layers' tape.

    Source: torch 2.13.0, aten/src/ATen/autocast_mode.cpp: cached_cast.
    """
    if update.autocast_width in (None, trained_width(update)):
        return 0
    if update.adapter is not None:  # those of experts are added to the weights without autocast
        dense = architecture._replace(experts=None, intermediate=0) if architecture.experts else architecture
        return trained_parameters(dense, update) * update.width
    is_beside = update.casts_weights and update.is_checkpointing and update.caches_copies
    return linear_parameters(architecture) * update.width * is_beside


def _kept_copies(update: Update, cached: int) -> int:
    """The copies that autograd also keeps: an adapter's, unless its layer is recomputed."""
    return cached if update.adapter is not None and not update.is_checkpointing else 0


def _batch(update: Update) -> int:
    """Token ids and masks of a micro-batch, separate and joined, and labels."""
    return 5 * update.tokens * _INTEGER


_LOGIT_COPIES = 4


def generation_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """Temporary memory of generation beyond the cache: at first one layer's prompts, later one token's probabilities.

    Each new token copies one layer's keys and values (transformers, cache_utils.py: torch.cat) and makes float32
    copies of the logits (generation/utils.py: _sample). A fully trained model generates under autocast, an adapted one
    does not (accelerate, accelerator.py: prepare_model).
    """
    prompts = update._replace(batch=sequences, completion=0, autocast_width=None)
    first = layer_held(architecture, prompts, needs_gradient=False).passing
    copied = cache_bytes(architecture._replace(windows=None), update, sequences) // architecture.layers
    casts = _cached_copies(architecture, update._replace(is_checkpointing=True)) if update.trains_weights() else 0
    of_vision = vision_bytes(architecture, prompts, sequences)
    return casts + max(first, of_vision, copied + _LOGIT_COPIES * 4 * sequences * architecture.vocabulary)


@cache
def vision_held(architecture: Architecture, update: Update) -> Decoder | None:
    """The memory of tower and projector for the images of a micro-batch; None without images.

    In an adapted model, checkpointing sends gradients through the whole tower although none of its weights needs them:
    all embeddings require them, including those of patches. Source: transformers, modeling_utils.py:
    enable_input_require_grads; trl, trainer/grpo_trainer.py.
    """
    vision, adapter = architecture.vision, update.adapter
    if vision is None or not update.pixels:
        return None
    patches = -(-update.batch * update.pixels // vision.patch)
    rows = -(-patches // vision.tile) if vision.tile else update.batch
    tower_update = update._replace(batch=rows, prompt=-(-patches // rows), completion=0, is_padded=False)
    if adapter is not None and adapter.spares_vision:
        tower_update = tower_update._replace(adapter=adapter._replace(targets=()))
    begins = tower_update.trains_weights() or tower_update.is_checkpointing
    other = vision_layer_held(vision, tower_update, needs_gradient=begins or _adapts_tower(vision, tower_update))
    return Decoder(
        first=vision_layer_held(vision, tower_update, needs_gradient=begins),
        other=other,
        last_norm=_project(architecture, vision, tower_update, tower_update if vision.is_inside else update),
        layers=vision.layers,
        between=patches * vision.hidden * update.weight_width,
        shared=update.batch * update.pixels * update.width  # cast, or without padding
        + patches * vision.hidden * update.weight_width
        + (8 * patches * (vision.hidden // vision.heads) if vision.is_fused else 0),
        is_checkpointing=update.is_checkpointing,
    )


def _adapts_tower(vision: Vision, update: Update) -> bool:
    return update.adapter is not None and any(update.adapter.adapts(name) for name in vision.linears())


def _project(architecture: Architecture, vision: Vision, update: Update, behind: Update) -> Held:
    """The last norm and the projector; behind: the update as the projector sees it."""
    tape, hidden = Tape(), architecture.hidden
    needs_gradient = update.trains_weights() or update.is_checkpointing or _adapts_tower(vision, update)
    read = tape.tensor(update.tokens * vision.hidden, update.weight_width, needs_gradient)
    tokens = update.tokens // vision.merged
    read = vision_norm(tape, vision, update, read)
    if not vision.projector:
        read = tape.make([read], update.tokens * vision.hidden, read.width, keeps_result=True)
        read = tape.make([read], tokens * vision.hidden, read.width)
        read = norm(tape, behind, read, vision.hidden, scales_wide=True)
        product(tape, behind, read, vision.hidden, hidden, behind.trains_weights())
        return tape.measure()
    if not vision.is_inside:
        read = tape.make([read], update.tokens * vision.hidden, read.width)
    for index, (name, inputs, outputs) in enumerate(vision.projector):
        read = active_of(tape, read) if index else read
        read = linear(tape, behind, name, read, inputs, outputs)
    return tape.measure()


def _tower_backward(architecture: Architecture, update: Update, tower: Decoder) -> int:
    """The peak during the tower's backward pass, with the decoder's gradients allocated."""
    is_first, width, vision = update.accumulation == 1, trained_width(update), architecture.vision
    assert vision is not None
    trained = trained_parameters(architecture, update)
    in_tower = vision.parameters - vision.idle if update.trains_weights() else 0
    return (trained - in_tower) * width * is_first + tower.backward(in_tower // vision.layers * width * is_first)


def vision_bytes(architecture: Architecture, update: Update, rows: int) -> int:
    """The memory of tower and projector for this many rows in a no-grad pass."""
    tower = vision_held(architecture, update._replace(batch=rows))
    if tower is None or architecture.vision is None:
        return 0
    states = tower.layers * tower.between if architecture.vision.keeps_states else 0
    return tower.shared + states + max(tower.other.passing, tower.last_norm.passing)
