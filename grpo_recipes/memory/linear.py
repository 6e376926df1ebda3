"""Models linear modules on a tape: plain, mixed-precision, four-bit and adapted ones, and the output layer."""

from typing import NamedTuple

from grpo_recipes.memory.tape import Tape, TapeTensor
from grpo_recipes.memory.update import Adapter, Update
from grpo_recipes.user_files.architecture import Architecture


def linear(tape: Tape, update: Update, name: str, read: TapeTensor, inputs: int, outputs: int) -> TapeTensor:
    """A linear module of a layer with its adapter, if any."""
    result = _four_bits(tape, update, read, inputs, outputs) if update.four_bits else None
    result = result or product(tape, update, read, inputs, outputs, update.trains_weights())
    if update.adapter is None or not update.adapter.adapts(name):
        return result
    return _adapter_product(tape, update, update.adapter, read, result, (inputs, outputs))


def product(tape: Tape, update: Update, read: TapeTensor, inputs: int, outputs: int, trains: bool) -> TapeTensor:
    """Tokens times a weight as loaded.

    Mixed precision casts the input for each module, and a weight once per forward pass if it is trained (torch 2.13.0,
    aten/src/ATen/autocast_mode.cpp: cached_cast); autograd keeps the copies. The gradient of a weight has the compute
    type, and is cast to the weight's.
    """
    tokens, width = read.size // read.width // inputs, update.width
    cast = tape.cast(read, width)
    keeps = [cast] if trains else []
    copied = inputs * outputs * width if update.casts_weights else 0
    if copied and read.needs_gradient:
        keeps.append(tape.tensor(inputs * outputs, width))
        copied = 0
    backward = inputs * outputs * (width + (update.weight_width if width != update.weight_width else 0))
    return tape.make(
        [cast], tokens * outputs, width, keeps=keeps, trains=trains, forward=copied, backward=backward if trains else 0
    )


def _four_bits(tape: Tape, update: Update, read: TapeTensor, inputs: int, outputs: int) -> TapeTensor:
    """Four-bit weights, dequantized for each product, forward and backward.

    Source: bitsandbytes, nn/modules.py: Linear4bit.forward; autograd/_functions.py: MatMul4Bit; and
    backends/cuda/ops.py: more than a few hundred tokens are multiplied with a dequantized copy.
    """
    assert update.four_bits is not None
    tokens, width = read.size // read.width // inputs, update.four_bits.compute_width
    whole = inputs * outputs * width
    back = whole + (inputs * outputs * read.width if width != read.width else 0)
    result = tape.make([tape.cast(read, width)], tokens * outputs, width, forward=whole, backward=back)
    result = tape.cast(result, read.width)
    has_adapter = update.adapter is not None
    return tape.make([result], tokens * outputs, read.width, passes=True) if has_adapter else result  # peft clones it


def _adapter_product(
    tape: Tape, update: Update, adapter: Adapter, read: TapeTensor, result: TapeTensor, shape: tuple[int, int]
) -> TapeTensor:
    """A LoRA adapter on a module, in float32 unless autocast computes it.

    Source: peft, tuners/lora/layer.py: Linear.forward, which casts the input to the adapter's type; and
    tuners/lora/bnb.py: Linear4bit.forward, which does so only without autocast.
    """
    inputs, outputs = shape
    tokens = read.size // read.width // inputs
    width = update.autocast_width or adapter.width
    is_cast = update.four_bits is None or update.autocast_width is None
    argument = read
    given = read = tape.cast(read, adapter.width) if is_cast else read
    if adapter.has_dropout:
        mask = tape.tensor(tokens * inputs, 1)
        read = tape.make([read], tokens * inputs, read.width, keeps=[mask])
    read = tape.cast(read, width)
    small, wide = adapter.r * inputs, adapter.r * outputs
    down = tape.make([read], tokens * adapter.r, width, keeps=[read], trains=True, backward=small * (width + 4))
    up = tape.make([down], tokens * outputs, width, keeps=[down], trains=True, backward=wide * (width + 4))
    scaled = tape.make([up], tokens * outputs, width, holds=[argument, given, result])
    scaled = tape.cast(scaled, result.width) if update.four_bits else scaled
    total = tape.make(
        [result, scaled], tokens * outputs, max(result.width, width), passes=True, holds=[argument, given]
    )
    return tape.cast(total, result.width)  # the variables of both forward methods hold their inputs


_INDEX = 8
"""Bytes of an index, int64."""


def route(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """The router and the products of all experts, with a copy of each token for each of its experts.

    Source: transformers, models/qwen3_moe/modeling_qwen3_moe.py: Qwen3MoeTopKRouter; and integrations/moe.py:
    grouped_mm_experts_forward. Autocast does not cast grouped_mm: it computes in the type of the weights.
    """
    experts = architecture.experts
    assert experts is not None
    hidden, inner, tokens, trains = architecture.hidden, experts.intermediate, update.tokens, update.trains_weights()
    sent, width = tokens * experts.per_token, update.weight_width
    logits = tape.make(
        [tape.cast(read, update.width)],
        tokens * experts.number,
        update.width,
        keeps=[read] if trains else [],
        trains=trains,
    )
    shares = tape.make([tape.cast(logits, 4)], tokens * experts.number, 4, keeps_result=True)
    order, back = tape.tensor(sent, _INDEX), tape.tensor(sent, _INDEX)
    shares = tape.make([shares], sent, 4, keeps=[tape.tensor(sent, _INDEX)])
    shares = tape.make([tape.cast(shares, update.width)], sent, update.width, keeps=[order])
    chosen = tape.make([read], sent * hidden, read.width, keeps=[tape.tensor(sent, _INDEX)])
    chosen = tape.cast(chosen, width)
    merged: list[TapeTensor] = []
    both = _experts_product(tape, update, experts.number, chosen, sent * 2 * inner, (2, hidden, 2 * inner), merged)
    active = tape.make([both], sent * inner, width, keeps=[both], backward=both.size // 2)
    product = tape.make([active, both], sent * inner, width, keeps=[active, both])
    out = _experts_product(tape, update, experts.number, product, sent * hidden, (1, inner, hidden), merged)
    weighed = tape.make([out, shares], sent * hidden, width, keeps=[out, shares], backward=out.size)
    ordered = tape.make([weighed], sent * hidden, width, keeps=[back])
    total = tape.make([ordered], tokens * hidden, width, holds=[chosen, out, *merged])
    return tape.cast(total, read.width)


def _experts_product(
    tape: Tape,
    update: Update,
    experts: int,
    read: TapeTensor,
    count: int,
    shape: tuple[int, int, int],
    merged: list[TapeTensor],
) -> TapeTensor:
    """The product of each token with its expert's weight. shape: modules in one weight, inputs, outputs.

    Adapted weights are copied whole for each forward pass, with the adapter added, and so is the gradient, which stays
    until the experts are done. Source: peft, tuners/lora/layer.py: ParamWrapper, _LoraFactorsProxy.
    """
    modules, inputs, outputs = shape
    width, trains, parameters = update.weight_width, update.trains_weights(), experts * inputs * outputs
    if update.adapter is not None and update.adapter.adapts_experts():
        factors = tape.tensor(modules * update.adapter.r * experts * (inputs + outputs), width)
        merged.append(tape.make([], parameters, width, keeps=[factors], trains=True))
        return tape.make([read, merged[-1]], count, width, keeps=[read, merged[-1]])
    return tape.make(
        [read],
        count,
        width,
        keeps=[read] if trains else [],
        trains=trains,
        backward=parameters * width if trains else 0,
    )


_TILE_TOKENS = 4096
_TILE_COLUMNS = 32_768
_PAGE = 4096
_STATISTICS = 11
"""Float32 numbers for one scored position: seven temporaries, four results."""
_ENTROPY_ROWS = 128


class OutputHeld(NamedTuple):
    """Bytes beyond what the decoder keeps. forward, backward: the peaks; left: until the decoder's backward is over."""

    forward: int
    backward: int
    left: int


def output_held(architecture: Architecture, update: Update) -> OutputHeld:
    """The memory of the output layer and the loss, by the release of TRL."""
    held = {"fused": _output_by_kernel, "logits": _logits, "kernel": _kernel}[update.output](architecture, update)
    is_shared = architecture.is_tied and update.trains_weights()
    weight = architecture.vocabulary * architecture.hidden * update.weight_width
    # The gradient of a tied weight waits for that of the embedding; torch 2.13.0, autograd/input_buffer.cpp.
    return OutputHeld(held.forward, held.backward, weight if is_shared else 0)


def _output_by_kernel(architecture: Architecture, update: Update) -> OutputHeld:
    """Tiles of 4,096 positions by 32,768 words, for any vocabulary; gradients in float32.

    A CPU only uses the part of a tile that has words.

    Source: trl, kernels/chunked_logprob.py: ChunkedLogProbFunction; trainer/utils.py: add_fused_lm_head, which
    copies out the scored positions if Triton is installed; otherwise all positions are scored.
    """
    on_gpu = update.device == "cuda"
    scored = update.batch * (update.completion if on_gpu else update.length - 1)
    hidden, width, wide, words = architecture.hidden, update.width, update.weight_width, architecture.vocabulary
    rows, columns = min(scored, _TILE_TOKENS), min(words, _TILE_COLUMNS)
    row = _TILE_COLUMNS * width if on_gpu else _round_to_pages(columns * width)
    tile = rows * row + (rows * hidden * width if wide != width else 0)
    is_cast = update.casts_weights
    cast = columns * hidden * width * is_cast
    next_cast = max(0, min(words - _TILE_COLUMNS, _TILE_COLUMNS)) * hidden * width * is_cast
    copied, results = scored * hidden * wide, 4 * scored * _STATISTICS
    of_hidden, of_weight = 4 * scored * hidden, 4 * words * hidden * update.trains_weights()
    returned = scored * hidden * wide * (wide != 4) + of_weight // 4 * update.weight_width * (update.weight_width != 4)
    in_tile, in_tile_back = (0, 0) if on_gpu else _tile_in_torch(rows * columns)
    backward = copied + results + tile + of_hidden + of_weight + max(cast + next_cast + in_tile_back, returned)
    return OutputHeld(copied + tile + max(cast, in_tile) + results, backward, 0)


def _round_to_pages(size: int) -> int:
    """Rounds bytes up to whole pages."""
    return -(-size // _PAGE) * _PAGE


def _tile_in_torch(elements: int) -> tuple[int, int]:
    """Copies of a tile without Triton's in-place updates: forward 3, backward 7 in float32, and a mask.

    Source: trl, kernels/chunked_logprob.py: _forward_tile, _backward_tile.
    """
    return 3 * 4 * elements, 7 * 4 * elements + elements


def _kernel(architecture: Architecture, update: Update) -> OutputHeld:
    """Logits that a Triton kernel reads once, and their gradient.

    Source: trl 1.14.2, kernels/logprob_entropy.py: it keeps the logits; not traced, since it has no fake form.
    """
    tape = Tape()
    rows = update.batch * (update.completion + 1)
    read = tape.tensor(rows * architecture.hidden, update.weight_width, True)
    logits = product(tape, update, read, architecture.hidden, architecture.vocabulary, update.trains_weights())
    logits = tape.cast(logits, 4) if update.copies_logits else logits
    held = tape.measure()
    return OutputHeld(held.forward, max(held.backward, held.kept + 2 * logits.size), 0)


def _logits(architecture: Architecture, update: Update) -> OutputHeld:
    """Logits of all completions and one extra position, and their gradients.

    Mixed-precision logits are copied to float32. Float32 logits are kept, with two gradients, one of the picked values
    and one of the sums; 16-bit logits are freed, and all probabilities are kept instead, row by row.
    Source: trl 0.23.1, trainer/grpo_trainer.py: _get_per_token_logps_and_entropies; trainer/utils.py:
    selective_log_softmax, entropy_from_logits; accelerate 1.10.1, utils/operations.py: convert_outputs_to_fp32.
    """
    tape, words = Tape(), architecture.vocabulary
    read = tape.tensor(update.batch * (update.completion + 1) * architecture.hidden, update.weight_width, True)
    logits = product(tape, update, read, architecture.hidden, words, update.trains_weights())
    logits = tape.cast(logits, 4) if update.copies_logits else logits
    held, width = tape.measure(), logits.width
    scaled = update.batch * update.completion * words * width
    row = update.completion * words * width
    entropy = 3 * min(_ENTROPY_ROWS, update.batch * update.completion) * words * width
    probabilities = row + entropy if width == 4 else scaled + entropy
    forward = max(held.forward, held.kept + max(logits.size, probabilities) + scaled)
    gradients = 3 * scaled if width == 4 else 2 * scaled
    # The gradient of a slice of the logits is as large as all of them.
    return OutputHeld(forward, max(held.backward, held.kept + max(gradients, scaled + logits.size)), 0)
