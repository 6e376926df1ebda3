"""Tracks the bytes of all live tensors, operation by operation."""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

BLOCK_BYTES = 512
"""The size that each request is rounded up to; torch 2.13.0, c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize."""


class LiveBytes(TorchDispatchMode):
    """The bytes of the live storages, and the peak of each phase.

    phase: the name under which peaks are recorded. at_output: live bytes at the end of the decoder. scored: how many
    positions a boolean mask selects, since a fake tensor has no values to count.

    A sum of two gradients is recorded at the next operation, when both are freed: autograd adds to the first in place,
    except under a dispatch mode like this one (torch 2.13.0, torch/csrc/autograd/input_buffer.cpp).
    """

    def __init__(self, scored: int) -> None:
        super().__init__()
        self.phase = "load"
        self.peaks: dict[str, int] = {}
        self.now = 0
        self.at_output = 0
        self._scored = scored
        self._known: dict[int, Any] = {}
        self._is_sum = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.note()
        result = self._answer(func, args, dict(kwargs or {}))
        self._is_sum = func._schema.name == "aten::add" and not torch.is_grad_enabled()
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        return result

    def see(self, tensor: torch.Tensor) -> None:
        """Counts a tensor's storage while it is referenced."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = -(-storage.nbytes() // BLOCK_BYTES) * BLOCK_BYTES
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key, size))
        self.now += size
        if not self._is_sum:
            self.note()

    def note(self) -> None:
        """Records the live bytes as the phase's peak if they exceed it."""
        self.peaks[self.phase] = max(self.peaks.get(self.phase, 0), self.now)

    def _gone(self, key: int, size: int) -> None:
        if self._known.pop(key, None) is not None:
            self.now -= size

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the operation; if its result depends on values, returns the result for a batch with padding.

        Gradients of picked values are written into zeros in place, except under a dispatch mode like this one (torch
        2.13.0, torch/csrc/autograd/FunctionsManual.cpp: gather_backward, index_backward).
        """
        name = func._schema.name
        if name == "aten::_local_scalar_dense":
            return False if args[0].dtype == torch.bool else 1.0
        if name == "aten::index" and _is_mask(args[1]):
            kept = args[0].shape[len(_mask(args[1]).shape) :]
            return args[0].new_empty((self._scored, *kept))
        if name in ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_") and _is_mask(args[1]):
            return args[0]
        if name == "aten::scatter_add" and not torch.is_grad_enabled():
            return args[0]
        result = func(*args, **kwargs)
        if name == "bitsandbytes::gemm_4bit":  # GPU kernels multiply many tokens with a dequantized copy
            self.see(torch.empty(args[2], dtype=args[0].dtype))
        return result


def _is_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _mask(indices: Any) -> torch.Tensor:
    return next(index for index in indices if index is not None and index.dtype == torch.bool)
