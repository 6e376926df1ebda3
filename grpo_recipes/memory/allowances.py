"""What is held beside tensors. None of it was measured here: round figures, said as such."""

_CONTEXT = 600 * 2**20
_COMMUNICATORS = 500 * 2**20
_SLACK = 0.04


def context_bytes() -> int:
    """The context of CUDA, kernels of torch and cuBLAS's workspaces: 0.5 to 0.7 GiB on recent GPUs."""
    return _CONTEXT


def communicator_bytes(processes: int) -> int:
    """Buffers of NCCL for one communicator over several GPUs; nothing for one process."""
    return _COMMUNICATORS if processes > 1 else 0


def slack_bytes(computed: int) -> int:
    """What the caching allocator cannot use of what it holds, as a share of what comes and goes.

    Source of what it does: torch 2.13.0, c10/cuda/CUDACachingAllocator.cpp, which gives a freed block to a smaller
    request and keeps the rest.
    """
    return round(_SLACK * computed)
