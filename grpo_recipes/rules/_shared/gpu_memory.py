"""The memory of the GPUs of a run, for rules; no rule itself."""

from grpo_recipes.rules._shared.context import Context

GIB = 2**30


def smallest_gpu(context: Context) -> float | None:
    """GiB of the smallest GPU, None when any is not known."""
    known = [gpu.memory_gib for gpu in context.stack.gpus or ()]
    sizes = [size for size in known if size is not None]
    return min(sizes) if sizes and len(sizes) == len(known) else None


def gpu_bytes(context: Context) -> int | None:
    """Bytes of the smallest GPU; None when any is not known, and for a run on the CPU."""
    gib = None if context.value("world.device") == "cpu" else smallest_gpu(context)
    return None if gib is None else round(gib * GIB)
