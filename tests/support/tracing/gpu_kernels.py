"""Models the allocations of GPU kernels with operations that a fake CPU tensor supports."""

from typing import Any

import torch

ATTENTION = "sdpa_of_a_gpu"


class _FusedAttention(torch.autograd.Function):
    """Attention that saves no matrix of scores, only its inputs, its result and a sum for each row.

    Source: torch 2.13.0, aten/src/ATen/native/transformers/cuda/attention.cu and attention_backward.cu: the
    memory-efficient kernel has float32 accumulators for the gradient of a 16-bit query. Its result is laid out token by
    token, whatever the query's layout, so the output projection needs no copy of it.
    """

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: Any) -> torch.Tensor:
        rows, heads, length, width = query.shape
        result = torch.empty((rows, length, heads, width), dtype=query.dtype).transpose(1, 2)
        row_sums = torch.empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, bias, result, row_sums)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        query, key, value, _, _, row_sums = ctx.saved_tensors
        deltas = torch.empty_like(row_sums)
        of_query, of_key, of_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        accumulator = torch.empty(query.shape, dtype=torch.float32) if query.element_size() < 4 else None
        del accumulator, deltas
        return of_query, of_key, of_value, None


def attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **_: Any
) -> tuple[torch.Tensor, None]:
    """`scaled_dot_product_attention` as a GPU computes it for a batch with padding.

    The keys are repeated for grouped queries (transformers, integrations/sdpa_attention.py), and each call
    converts a boolean mask to an additive one of the queries' type (torch 2.13.0,
    aten/src/ATen/native/transformers/attention.cpp: convert_boolean_attn_mask).
    """
    groups = query.shape[1] // key.shape[1]
    if attention_mask is not None and groups > 1:
        key, value = _repeated(key, groups), _repeated(value, groups)
    if torch.is_autocast_enabled("cpu"):
        lower = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(lower), key.to(lower), value.to(lower)
    bias = None if attention_mask is None else torch.empty(attention_mask.shape, dtype=query.dtype)
    result = _FusedAttention.apply(query, key, value, bias)
    return result.transpose(1, 2).contiguous(), None


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    batch, count, length, width = heads.shape
    wide = heads[:, :, None, :, :].expand(batch, count, times, length, width)
    return wide.reshape(batch, count * times, length, width)


def install() -> None:
    """Makes the libraries compute as on a GPU: attention, and the tiles of TRL's output layer if it has them."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    try:
        import trl.kernels.chunked_logprob as tiles
        import trl.trainer.utils as utils
    except ImportError:  # TRL < 1.15
        return
    tiles._forward_tile = tiles._backward_tile = lambda *_, **__: None  # Triton changes a tile in place
    tiles._addmm_fp32 = lambda *_: None  # cuBLAS writes float32 into the accumulator directly
    utils._use_triton = lambda _: True  # only the scored positions reach the output layer
