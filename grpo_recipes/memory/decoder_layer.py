"""One layer of a decoder on a tape: what its operations hold, forward and back."""

from functools import cache

from grpo_recipes.memory.experts import routed
from grpo_recipes.memory.linear import linear
from grpo_recipes.memory.tape import Held, Tape, TapeTensor
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture

_Heads = tuple[TapeTensor, TapeTensor, TapeTensor]


def hidden_width(update: Update) -> int:
    """Bytes of one element of what goes from layer to layer: the embedding's type, wider than autocast's if that is."""
    return update.weight_width


@cache
def layer_held(architecture: Architecture, update: Update, needs_gradient: bool = True) -> Held:
    """What one layer holds. needs_gradient: of its input, which the first layer of an adapted model has none of.

    Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py and its like: DecoderLayer.forward.
    """
    tape = Tape()
    count = update.tokens * architecture.hidden
    hidden = tape.tensor(count, hidden_width(update), needs_gradient)
    read = norm(tape, update, hidden, architecture.hidden)
    mixed = _attention(tape, architecture, update, read)
    hidden = tape.made([hidden, mixed], count, max(hidden.width, mixed.width), passes=True, holds=[read])
    read = norm(tape, update, hidden, architecture.hidden)
    mixed = (
        _mlp(tape, architecture, update, read)
        if architecture.experts is None
        else routed(tape, architecture, update, read)
    )
    tape.made([hidden, mixed], count, max(hidden.width, mixed.width), passes=True, holds=[read])
    return tape.held()


def norm(tape: Tape, update: Update, read: TapeTensor, row: int) -> TapeTensor:
    """RMSNorm, computed in float32. row: elements that share a mean.

    Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py: Qwen2RMSNorm.forward.
    """
    count = read.size // read.width
    rows, whole, trains = count // row, 4 * count, update.trains_weights()
    wide = tape.cast(read, 4)
    squares = tape.made([wide], count, 4, keeps=[wide], backward=whole)
    mean = tape.made([squares], rows, 4)
    scale = tape.made([mean], rows, 4, keeps_result=True)
    normed = tape.made([wide, scale], count, 4, keeps=[wide, scale], backward=whole)
    rounded = tape.cast(normed, read.width)
    width = max(read.width, update.weight_width)
    return tape.made(
        [rounded],
        count,
        width,
        keeps=[rounded] if trains else [],
        trains=trains,
        backward=count * width if trains else 0,
        holds=[read, normed],
    )


def _mlp(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """The gated MLP. Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py: Qwen2MLP.forward."""
    hidden, intermediate = architecture.hidden, architecture.intermediate
    gate = linear(tape, update, "mlp.gate_proj", read, hidden, intermediate)
    active = tape.made([gate], update.tokens * intermediate, gate.width, keeps=[gate])
    up = linear(tape, update, "mlp.up_proj", read, hidden, intermediate)
    both = tape.made([active, up], update.tokens * intermediate, gate.width, keeps=[active, up])
    return linear(tape, update, "mlp.down_proj", both, intermediate, hidden)


def _attention(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """Attention from the normed hidden states to the output projection.

    Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py: Qwen2Attention.forward.
    """
    query_size = architecture.heads * architecture.head_dim
    key_size = architecture.key_value_heads * architecture.head_dim
    query = linear(tape, update, "self_attn.q_proj", read, architecture.hidden, query_size)
    query = norm(tape, update, query, architecture.head_dim) if architecture.has_head_norms else query
    key = linear(tape, update, "self_attn.k_proj", read, architecture.hidden, key_size)
    key = norm(tape, update, key, architecture.head_dim) if architecture.has_head_norms else key
    value = linear(tape, update, "self_attn.v_proj", read, architecture.hidden, key_size)
    query, key = _rotated(tape, update, query), _rotated(tape, update, key)
    heads = (key, value)
    groups = architecture.heads // architecture.key_value_heads
    if groups > 1 and (update.attention == "eager" or (update.attention == "sdpa" and update.is_padded)):
        key = tape.made([key], groups * key.size // key.width, key.width)
        value = tape.made([value], groups * value.size // value.width, value.width)
    if update.attention == "eager":
        mixed = _eager(tape, architecture, update, (query, key, value), heads)
    else:
        mixed = _fused(tape, architecture, update, (query, key, value), heads)
    return linear(tape, update, "self_attn.o_proj", mixed, query_size, architecture.hidden)


def _rotated(tape: Tape, update: Update, heads: TapeTensor) -> TapeTensor:
    """Queries or keys with their positions; under autocast of float32 weights, positions make them float32.

    Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py: apply_rotary_pos_emb, rotate_half.
    """
    count, width = heads.size // heads.width, max(heads.width, hidden_width(update))
    cosine = tape.made([heads], count, width)
    half = heads.size // 2
    turned = tape.made([heads], count, heads.width, forward=half, backward=heads.size + half)
    sine = tape.made([turned], count, width)
    return tape.made([cosine, sine], count, width, passes=True)


def _fused(
    tape: Tape, architecture: Architecture, update: Update, read: _Heads, holds: tuple[TapeTensor, TapeTensor]
) -> TapeTensor:
    """A kernel that keeps no matrix of scores.

    Each call makes an additive mask of its own out of that of booleans and keeps it, when rows are padded. Source:
    torch 2.13.0, aten/src/ATen/native/transformers/attention.cpp: convert_boolean_attn_mask; cuda/attention_backward.cu
    has a float32 accumulator for the gradient of the query.
    """
    query, key, value = (tape.cast(one, update.width) for one in read)
    count, rows = query.size // query.width, update.tokens * architecture.heads
    keeps = [query, key, value, tape.tensor(rows, 4)]
    if update.is_padded and update.attention == "sdpa":
        keeps.append(tape.tensor(update.batch * update.length**2, query.width))
    backward = 4 * rows + (4 * count if query.width < 4 else 0)
    return tape.made(
        [query, key, value], count, query.width, keeps=keeps, keeps_result=True, backward=backward, holds=holds
    )


def _eager(
    tape: Tape, architecture: Architecture, update: Update, read: _Heads, holds: tuple[TapeTensor, TapeTensor]
) -> TapeTensor:
    """Attention with its whole matrix of scores, softmax in float32.

    Source: transformers 5.23.0, models/qwen2/modeling_qwen2.py: eager_attention_forward.
    """
    query, key, value = (tape.cast(one, update.width) for one in read)
    count, scores = query.size // query.width, update.batch * architecture.heads * update.length**2
    weights = tape.made([query, key], scores, query.width, keeps=[query, key])
    weights = tape.made([weights], scores, query.width)
    weights = tape.made([weights], scores, max(query.width, hidden_width(update)), passes=True)
    shares = tape.made([tape.cast(weights, 4)], scores, 4, keeps_result=True, holds=[weights])
    if query.width != 4:  # a variable has the scores until the shares are in their type
        shares = tape.made([shares], scores, query.width, holds=[weights])
    weights = tape.cast(shares, update.width)
    return tape.made([weights, value], count, update.width, keeps=[weights, value], holds=holds)
