"""What is held beside tensors, in round figures. That of the libraries was measured; what is of GPUs was not."""

_LIBRARIES = 600 * 2**20
_BROADCAST = 2 * 250 * 2**20
_CONTEXT = 600 * 2**20
_COMMUNICATORS = 500 * 2**20
_SLACK = 0.04


def context_bytes() -> int:
    """The context of CUDA, kernels of torch and cuBLAS's workspaces: 0.5 to 0.7 GiB on recent GPUs."""
    return _CONTEXT


def library_bytes() -> int:
    """Resident memory of Python with torch, transformers, trl, peft and datasets in a process that trains on the CPU.

    Measured as what trainings of 0.4 and 135 million parameters held beside their tensors: 540 to 660 MiB. With them
    the estimate of the larger was 2 % above its peak, alone and in two processes, where freed blocks went back to the
    kernel; glibc's malloc by itself leaves holes beside it.
    """
    return _LIBRARIES


def broadcast_bytes(weights: int) -> int:
    """Copies in which DDP sends all weights from the first process to the others, at most two of 250 MiB at a time.

    Source: torch 2.13.0, nn/parallel/distributed.py: broadcast_bucket_size; csrc/distributed/c10d/comm.cpp:
    broadcast_coalesced.
    """
    return min(weights, _BROADCAST)


def communicator_bytes(processes: int) -> int:
    """Buffers of NCCL for one communicator over several GPUs; nothing for one process."""
    return _COMMUNICATORS if processes > 1 else 0


def slack_bytes(computed: int) -> int:
    """What the caching allocator cannot use of what it holds, as a share of what comes and goes.

    Source of what it does: torch 2.13.0, c10/cuda/CUDACachingAllocator.cpp, which gives a freed block to a smaller
    request and keeps the rest.
    """
    return round(_SLACK * computed)
