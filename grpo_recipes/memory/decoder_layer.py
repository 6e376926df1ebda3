"""Models one decoder or vision tower layer on a tape: the memory of its operations, forward and backward."""

from functools import cache

from grpo_recipes.memory.linear import linear, route
from grpo_recipes.memory.tape import Held, Tape, TapeTensor
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture, Vision

_Heads = tuple[TapeTensor, TapeTensor, TapeTensor]


@cache
def layer_held(architecture: Architecture, update: Update, needs_gradient: bool = True) -> Held:
    """The memory of one layer. needs_gradient: of its input; false for the first layer of an adapted model.

    Source: transformers, models/qwen2/modeling_qwen2.py and similar models: DecoderLayer.forward.
    """
    tape = Tape()
    count = update.tokens * architecture.hidden
    hidden = tape.tensor(count, update.weight_width, needs_gradient)
    read = _before(tape, architecture, update, hidden)
    mixed = _after(tape, architecture, update, _attention(tape, architecture, update, read))
    hidden = tape.make([hidden, mixed], count, max(hidden.width, mixed.width), passes=True, holds=[read])
    read = _before(tape, architecture, update, hidden)
    mixed = (
        _mlp(tape, architecture, update, read)
        if architecture.experts is None
        else route(tape, architecture, update, read)
    )
    mixed = _after(tape, architecture, update, mixed)
    tape.make([hidden, mixed], count, max(hidden.width, mixed.width), passes=True, holds=[read])
    return tape.measure()


def _before(tape: Tape, architecture: Architecture, update: Update, hidden: TapeTensor) -> TapeTensor:
    """Returns the input of attention or the MLP: the hidden states, normed unless norms only follow it."""
    style = architecture.style
    return hidden if style.norms == "after" else norm(tape, update, hidden, architecture.hidden, style.scales_wide)


def _after(tape: Tape, architecture: Architecture, update: Update, mixed: TapeTensor) -> TapeTensor:
    """Returns the output of attention or the MLP, normed if norms follow it."""
    style = architecture.style
    return mixed if style.norms == "before" else norm(tape, update, mixed, architecture.hidden, style.scales_wide)


def norm(tape: Tape, update: Update, read: TapeTensor, row: int, scales_wide: bool = False) -> TapeTensor:
    """RMSNorm, computed in float32. row: elements that share a mean. scales_wide: rounds last, to its input's type.

    Source: transformers, models/qwen2/modeling_qwen2.py: Qwen2RMSNorm.forward; models/olmo2/modeling_olmo2.py
    and models/gemma3/modeling_gemma3.py, which multiply by the weight in float32.
    """
    count = read.size // read.width
    rows, whole, trains = count // row, 4 * count, update.trains_weights()
    wide = tape.cast(read, 4)
    squares = tape.make([wide], count, 4, keeps=[wide], backward=whole)
    mean = tape.make([squares], rows, 4)
    scale = tape.make([mean], rows, 4, keeps_result=True)
    normed = tape.make([wide, scale], count, 4, keeps=[wide, scale], backward=whole)
    if scales_wide:
        keeps = [normed] if trains else []
        scaled = tape.make([normed], count, 4, keeps=keeps, trains=trains, backward=whole * trains, holds=[read])
        return tape.cast(scaled, read.width)
    rounded = tape.cast(normed, read.width)
    width = max(read.width, update.weight_width)
    return tape.make(
        [rounded],
        count,
        width,
        keeps=[rounded] if trains else [],
        trains=trains,
        backward=count * width if trains else 0,
        holds=[read, normed],
    )


def _mlp(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """The gated MLP. Source: transformers, models/qwen2/modeling_qwen2.py: Qwen2MLP.forward."""
    hidden, intermediate = architecture.hidden, architecture.intermediate
    if architecture.style.is_fused:
        return _fused_mlp(tape, architecture, update, read)
    gate = linear(tape, update, "mlp.gate_proj", read, hidden, intermediate)
    active = tape.make([gate], update.tokens * intermediate, gate.width, keeps=[gate])
    up = linear(tape, update, "mlp.up_proj", read, hidden, intermediate)
    both = tape.make([active, up], update.tokens * intermediate, gate.width, keeps=[active, up])
    return linear(tape, update, "mlp.down_proj", both, intermediate, hidden)


def _fused_mlp(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """The gated MLP with fused gate and up. Source: transformers, models/phi3/modeling_phi3.py: Phi3MLP."""
    hidden, intermediate = architecture.hidden, architecture.intermediate
    both = linear(tape, update, "mlp.gate_up_proj", read, hidden, 2 * intermediate)
    gate, up = tape.parts(both, (update.tokens * intermediate,) * 2)
    active = tape.make([gate], update.tokens * intermediate, gate.width, keeps=[gate])
    product = tape.make([up, active], update.tokens * intermediate, gate.width, keeps=[up, active])
    return linear(tape, update, "mlp.down_proj", product, intermediate, hidden)


def _attention(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> TapeTensor:
    """Attention from the normed hidden states to the output projection.

    Source: transformers, models/qwen2/modeling_qwen2.py: Qwen2Attention.forward.
    """
    query, key, value = _heads(tape, architecture, update, read)
    query, key = _rotate_heads(tape, architecture, update, query, key)
    heads = (key, value)
    groups = architecture.heads // architecture.key_value_heads
    if groups > 1 and (update.attention == "eager" or (update.attention == "sdpa" and update.is_padded)):
        key, value = (_repeat(tape, architecture, update, tensor, groups) for tensor in (key, value))
    if update.attention == "eager":
        mixed = _eager(tape, architecture.heads, update, (query, key, value), heads)
    else:
        mixed = _attend_by_kernel(tape, architecture.heads, update, (query, key, value), heads)
    query_size = architecture.heads * architecture.head_dim
    return linear(tape, update, "self_attn.o_proj", mixed, query_size, architecture.hidden)


def _repeat(tape: Tape, architecture: Architecture, update: Update, heads: TapeTensor, groups: int) -> TapeTensor:
    """Repeats keys or values for each query of a group; a single head is copied only for matrix products.

    Source: transformers, integrations/sdpa_attention.py: repeat_kv; a view where torch 2.13.0 can make one.
    """
    count = groups * heads.size // heads.width
    if architecture.key_value_heads == 1 and update.attention == "sdpa":
        return tape.parts(heads, (count,))[0]
    return tape.make([heads], count, heads.width)


def _heads(tape: Tape, architecture: Architecture, update: Update, read: TapeTensor) -> _Heads:
    """Queries, keys and values before positions, normed in families that do so.

    Source: transformers, models/qwen3/modeling_qwen3.py: Qwen3Attention.forward, whose norms follow all three
    only if they take single heads; models/phi3/modeling_phi3.py: Phi3Attention.forward.
    """
    hidden, style = architecture.hidden, architecture.style
    query_size = architecture.heads * architecture.head_dim
    key_size = architecture.key_value_heads * architecture.head_dim
    if style.is_fused:
        every = linear(tape, update, "self_attn.qkv_proj", read, hidden, query_size + 2 * key_size)
        sizes = (update.tokens * size for size in (query_size, key_size, key_size))
        query, key, value = (tape.parts(every, (size,))[0] for size in sizes)
        return query, key, value
    has_norms, wide = architecture.has_head_norms, style.scales_wide
    query_row, key_row = (query_size, key_size) if style.has_whole_norms else (architecture.head_dim,) * 2
    query = linear(tape, update, "self_attn.q_proj", read, hidden, query_size)
    query = norm(tape, update, query, query_row, wide) if has_norms else query
    key = linear(tape, update, "self_attn.k_proj", read, hidden, key_size)
    key = norm(tape, update, key, key_row, wide) if has_norms else key
    value = linear(tape, update, "self_attn.v_proj", read, hidden, key_size)
    return query, key, value


def _rotate_heads(
    tape: Tape, architecture: Architecture, update: Update, query: TapeTensor, key: TapeTensor
) -> tuple[TapeTensor, TapeTensor]:
    """Queries and keys with positions, which some families rotate only in a part of each head.

    Source: transformers, models/phi3/modeling_phi3.py: apply_rotary_pos_emb, which splits the heads even if the
    second part is empty; models/olmo2/modeling_olmo2.py has positions in float32.
    """
    style = architecture.style
    if not style.is_fused:
        width = 4 if style.rotates_wide else max(query.width, update.weight_width)
        turned = [_rotate(tape, heads, width) for heads in (query, key)]
        if style.rotates_wide:
            turned = [tape.cast(heads, query.width) for heads in turned]
        return turned[0], turned[1]
    counts = [round(style.rotated * heads.size // heads.width) for heads in (query, key)]
    cut = [
        (tape.parts(heads, (count,))[0], tape.parts(heads, (heads.size // heads.width - count,))[0])
        for heads, count in zip((query, key), counts, strict=True)
    ]
    width = max(query.width, update.weight_width)
    joined = [
        tape.make([_rotate(tape, turns, width), stays], (turns.size + stays.size) // turns.width, width, passes=True)
        for turns, stays in cut
    ]
    return joined[0], joined[1]


def _rotate(tape: Tape, heads: TapeTensor, width: int) -> TapeTensor:
    """Queries or keys with positions; under autocast of float32 weights, positions make them float32.

    Source: transformers, models/qwen2/modeling_qwen2.py: apply_rotary_pos_emb, rotate_half.
    """
    count = heads.size // heads.width
    cosine = tape.make([heads], count, width)
    half = heads.size // 2
    turned = tape.make([heads], count, heads.width, forward=half, backward=heads.size + half)
    sine = tape.make([turned], count, width)
    return tape.make([cosine, sine], count, width, passes=True)


def _attend_by_kernel(
    tape: Tape, number: int, update: Update, read: _Heads, holds: tuple[TapeTensor, TapeTensor]
) -> TapeTensor:
    """Attention by a kernel that does not keep the matrix of scores.

    If rows are padded, each call converts the boolean mask to its own additive mask and keeps it. Source: torch 2.13.0,
    aten/src/ATen/native/transformers/attention.cpp: convert_boolean_attn_mask; cuda/attention_backward.cu has a float32
    accumulator for the gradient of the query.
    """
    query, key, value = (tape.cast(tensor, update.width) for tensor in read)
    count, rows = query.size // query.width, update.tokens * number
    keeps = [query, key, value, tape.tensor(rows, 4)]
    if update.is_padded and update.attention == "sdpa":
        keeps.append(tape.tensor(update.batch * update.length**2, query.width))
    backward = 4 * rows + (4 * count if query.width < 4 else 0)
    return tape.make(
        [query, key, value], count, query.width, keeps=keeps, keeps_result=True, backward=backward, holds=holds
    )


def _eager(tape: Tape, number: int, update: Update, read: _Heads, holds: tuple[TapeTensor, TapeTensor]) -> TapeTensor:
    """Attention with its full matrix of scores, softmax in float32.

    Source: transformers, models/qwen2/modeling_qwen2.py: eager_attention_forward.
    """
    query, key, value = (tape.cast(tensor, update.width) for tensor in read)
    count, scores = query.size // query.width, update.batch * number * update.length**2
    weights = tape.make([query, key], scores, query.width, keeps=[query, key])
    weights = tape.make([weights], scores, query.width)
    weights = tape.make([weights], scores, max(query.width, update.weight_width), passes=True)
    shares = tape.make([tape.cast(weights, 4)], scores, 4, keeps_result=True, holds=[weights])
    if query.width != 4:  # a variable holds the scores until the probabilities are cast
        shares = tape.make([shares], scores, query.width, holds=[weights])
    weights = tape.cast(shares, update.width)
    return tape.make([weights, value], count, update.width, keeps=[weights, value], holds=holds)


# A layer of a tower: `update` describes its patches, with tiles as rows.
@cache
def vision_layer_held(vision: Vision, update: Update, needs_gradient: bool) -> Held:
    """The memory of one layer. needs_gradient: of its input.

    Source: transformers, models/siglip/modeling_siglip.py: SiglipEncoderLayer, which those of CLIP and Idefics3
    resemble; models/qwen2_5_vl/modeling_qwen2_5_vl.py: Qwen2_5_VLVisionBlock.
    """
    tape = Tape()
    count = update.tokens * vision.hidden
    hidden = tape.tensor(count, update.weight_width, needs_gradient)
    for part in (_vision_attention, _vision_mlp):
        read = vision_norm(tape, vision, update, hidden)
        mixed = part(tape, vision, update, read)
        hidden = tape.make([hidden, mixed], count, max(hidden.width, mixed.width), passes=True, holds=[read])
    return tape.measure()


def vision_norm(tape: Tape, vision: Vision, update: Update, read: TapeTensor) -> TapeTensor:
    """LayerNorm in one operation, in float32 under autocast; or RMSNorm."""
    if vision.is_gated:
        return norm(tape, update, read, vision.hidden)
    wide = tape.cast(read, 4) if update.autocast_width is not None else read
    count, trains = wide.size // wide.width, update.trains_weights()
    sums = tape.tensor(2 * count // vision.hidden, 4)
    return tape.make([wide], count, wide.width, keeps=[wide, sums], trains=trains, holds=[read])


def _vision_attention(tape: Tape, vision: Vision, update: Update, read: TapeTensor) -> TapeTensor:
    hidden, count = vision.hidden, update.tokens * vision.hidden
    if vision.is_fused:
        every = linear(tape, update, "attn.qkv", read, hidden, 3 * hidden)
        query, key, value = tape.parts(every, (count,) * 3)
        query, key = (tape.cast(_rotate(tape, tape.cast(tensor, 4), 4), value.width) for tensor in (query, key))
    else:
        query, key, value = (linear(tape, update, f"self_attn.{name}_proj", read, hidden, hidden) for name in "qkv")
    attend = _eager if update.attention == "eager" else _attend_by_kernel
    mixed = attend(tape, vision.heads, update, (query, key, value), (key, value))
    if vision.is_fused:  # the windows' outputs are joined
        mixed = tape.make([mixed], count, mixed.width, passes=True)
    return linear(tape, update, "attn.proj" if vision.is_fused else "self_attn.out_proj", mixed, hidden, hidden)


def _vision_mlp(tape: Tape, vision: Vision, update: Update, read: TapeTensor) -> TapeTensor:
    hidden, inner = vision.hidden, vision.intermediate
    wide = linear(tape, update, "mlp.gate_proj" if vision.is_gated else "mlp.fc1", read, hidden, inner)
    active = active_of(tape, wide, vision.is_quick)
    if not vision.is_gated:
        return linear(tape, update, "mlp.fc2", active, inner, hidden)
    up = linear(tape, update, "mlp.up_proj", read, hidden, inner)
    both = tape.make([active, up], active.size // active.width, active.width, keeps=[active, up])
    return linear(tape, update, "mlp.down_proj", both, inner, hidden)


def active_of(tape: Tape, read: TapeTensor, is_quick: bool = False) -> TapeTensor:
    """GELU or SiLU in one operation, or x * sigmoid(1.702 * x)."""
    count, width = read.size // read.width, read.width
    if not is_quick:
        return tape.make([read], count, width, keeps=[read])
    share = tape.make([tape.make([read], count, width)], count, width, keeps_result=True)
    return tape.make([read, share], count, width, keeps=[read, share])
