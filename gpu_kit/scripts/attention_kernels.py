"""`python attention_kernels.py DEVICE`: tests each attention kernel of torch on a left-padded batch.

Prints a line of JSON: whether gradients are finite at several lengths, and milliseconds of a forward and a backward
pass, at a repeated length and at a new one.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from grpo_recipes.worker.shims.attention_gradient import is_finite

KERNELS = {
    "torch's choice": None,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "written out": SDPBackend.MATH,
}
LENGTHS = (63, 64, 65, 128, 192, 320, 384, 1088)
PADDINGS = (0, 3)
TIMED = range(1000, 1010)
ROWS, HEADS = 8, 14


def gradients(device: str, length: int, padding: int, rows: int = 1, heads: int = 2) -> list[torch.Tensor]:
    """Returns the gradients of queries, keys and values after one pass."""
    torch.manual_seed(0)
    inputs = [torch.randn(rows, heads, length, 64, device=device, dtype=torch.bfloat16) for _ in range(3)]
    query, key, content = (tensor.requires_grad_() for tensor in inputs)
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    mask[:, :padding] = False
    scaled_dot_product_attention(query, key, content, attn_mask=mask).float().sum().backward()
    return [tensor.grad for tensor in inputs if tensor.grad is not None]


def milliseconds(lengths: Sequence[int], device: str) -> float:
    """Returns the mean time of a pass at these lengths."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for length in lengths:
        gradients(device, length, 3, ROWS, HEADS)
    torch.cuda.synchronize()
    return round((time.perf_counter() - began) / len(lengths) * 1000, 2)


def of(kernel: Any, device: str) -> dict[str, Any]:
    """Tests one kernel."""
    if kernel is not None:
        with sdpa_kernel(kernel):
            return of(None, device)
    broken = [
        f"{length} tokens, {padding} of them padding"
        for length in LENGTHS
        for padding in PADDINGS
        if not all(bool(torch.isfinite(one).all()) for one in gradients(device, length, padding))
    ]
    found: dict[str, Any] = {"not finite": broken}
    if device == "cuda":
        found["ms, new lengths"] = milliseconds(TIMED, device)
        found["ms, the same lengths"] = milliseconds(TIMED, device)
    return found


def main() -> None:
    device = sys.argv[1]
    found: dict[str, Any] = {"release of cuDNN": torch.backends.cudnn.version() if device == "cuda" else None}
    for name, kernel in KERNELS.items():
        try:
            found[name] = of(kernel, device)
        except RuntimeError as problem:
            found[name] = f"cannot: {str(problem)[:200]}"
    found["the shim finds it finite"] = is_finite(torch.device(device))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
