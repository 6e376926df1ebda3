"""The output layer and the loss: what the probabilities of the completions take."""

from typing import NamedTuple

from grpo_recipes.memory.linear import product
from grpo_recipes.memory.tape import Tape
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_TILE_TOKENS = 4096
_TILE_COLUMNS = 32_768
_PAGE = 4096
_STATISTICS = 11
"""Float32 numbers of one scored position: seven running ones, four results."""
_ENTROPY_ROWS = 128


class OutputHeld(NamedTuple):
    """Bytes beside what the decoder keeps. forward, backward: the most in each; left: until the decoder's is over."""

    forward: int
    backward: int
    left: int


def output_held(architecture: Architecture, update: Update) -> OutputHeld:
    """What the output layer and the loss hold, by the way that the release of TRL goes."""
    held = {"fused": _fused, "logits": _logits, "kernel": _kernel}[update.output](architecture, update)
    is_shared = architecture.is_tied and update.trains_weights()
    weight = architecture.vocabulary * architecture.hidden * update.weight_width
    # The gradient of a tied weight waits for that of the embedding; torch 2.13.0, autograd/input_buffer.cpp.
    return OutputHeld(held.forward, held.backward, weight if is_shared else 0)


def _fused(architecture: Architecture, update: Update) -> OutputHeld:
    """Tiles of 4,096 positions by 32,768 words, whatever the size of the vocabulary; gradients in float32.

    A CPU has memory for those of a row alone that there are words for.

    Source: trl 1.16.0, kernels/chunked_logprob.py: ChunkedLogProbFunction; trainer/utils.py: add_fused_lm_head, which
    copies the scored positions out of all, where Triton is; elsewhere all are scored.
    """
    on_gpu = update.device == "cuda"
    scored = update.batch * (update.completion if on_gpu else update.length - 1)
    hidden, width, wide, words = architecture.hidden, update.width, update.weight_width, architecture.vocabulary
    rows, columns = min(scored, _TILE_TOKENS), min(words, _TILE_COLUMNS)
    row = _TILE_COLUMNS * width if on_gpu else _touched(columns * width)
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


def _touched(size: int) -> int:
    """The bytes of the pages that so many bytes lie in."""
    return -(-size // _PAGE) * _PAGE


def _tile_in_torch(elements: int) -> tuple[int, int]:
    """Copies of a tile where Triton does not change it in place, forward and back, 3 and 7 of float32 and a mask.

    Source: trl 1.16.0, kernels/chunked_logprob.py: _forward_tile, _backward_tile.
    """
    return 3 * 4 * elements, 7 * 4 * elements + elements


def _kernel(architecture: Architecture, update: Update) -> OutputHeld:
    """Logits that a Triton kernel reads once, and their gradient.

    Source: trl 1.14.2, kernels/logprob_entropy.py: it keeps the logits; not traced, for it has no fake form.
    """
    tape = Tape()
    rows = update.batch * (update.completion + 1)
    read = tape.tensor(rows * architecture.hidden, update.weight_width, True)
    logits = product(tape, update, read, architecture.hidden, architecture.vocabulary, update.trains_weights())
    logits = tape.cast(logits, 4) if update.copies_logits else logits
    held = tape.held()
    return OutputHeld(held.forward, max(held.backward, held.kept + 2 * logits.size), 0)


def _logits(architecture: Architecture, update: Update) -> OutputHeld:
    """Logits of all the completions and one position more, and their gradients.

    Logits of mixed precision are copied into float32. Those of float32 are kept, and their gradient is made twice, of
    what was picked and of the sums; those of 16 bits are gone, with all probabilities kept instead, row by row.
    Source: trl 0.23.1, trainer/grpo_trainer.py: _get_per_token_logps_and_entropies; trainer/utils.py:
    selective_log_softmax, entropy_from_logits; accelerate 1.10.1, utils/operations.py: convert_outputs_to_fp32.
    """
    tape, words = Tape(), architecture.vocabulary
    read = tape.tensor(update.batch * (update.completion + 1) * architecture.hidden, update.weight_width, True)
    logits = product(tape, update, read, architecture.hidden, words, update.trains_weights())
    logits = tape.cast(logits, 4) if update.copies_logits else logits
    held, width = tape.held(), logits.width
    scaled = update.batch * update.completion * words * width
    row = update.completion * words * width
    entropy = 3 * min(_ENTROPY_ROWS, update.batch * update.completion) * words * width
    probabilities = row + entropy if width == 4 else scaled + entropy
    forward = max(held.forward, held.kept + max(logits.size, probabilities) + scaled)
    gradients = 3 * scaled if width == 4 else 2 * scaled
    # A slice of the logits has a gradient as large as all of them.
    return OutputHeld(forward, max(held.backward, held.kept + max(gradients, scaled + logits.size)), 0)
