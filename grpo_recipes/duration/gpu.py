"""Seconds that something takes on a GPU, from what it starts, reads and computes."""

from typing import NamedTuple

from grpo_recipes.duration.between import Between
from grpo_recipes.duration.shares import ADAPTER, COMPUTE, FOUR_BITS, TRANSFORMERS_EXPERTS_LAYER_S, TRANSFORMERS_LAYER_S
from grpo_recipes.facts.gpu_speeds import GpuSpeed
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture


class TimedGpu(NamedTuple):
    """A GPU. has_tf32: float32 is multiplied in TF32, at half the speed of 16 bits where tensor cores know it."""

    speed: GpuSpeed
    has_tf32: bool = False


def compute_seconds(gpu: TimedGpu, flops: float, width: int) -> Between:
    """Seconds of so many operations. width: bytes of the numbers that are multiplied."""
    slow, fast = gpu.speed.flops_16
    if width > 2:
        slow, fast = (slow / 2, fast / 2) if gpu.has_tf32 else gpu.speed.flops_32
    return Between(flops / (fast * COMPUTE.most), flops / (slow * COMPUTE.least))


def reading_seconds(gpu: TimedGpu, size: float, share: Between) -> Between:
    """Seconds in which so many bytes go through the GPU's memory. share: of its bandwidth that is reached."""
    slow, fast = gpu.speed.bandwidth
    return Between(size / (fast * share.most), size / (slow * share.least))


def starting_seconds(architecture: Architecture, update: Update) -> Between:
    """Seconds until Python has started the kernels of one forward pass of transformers."""
    layer = TRANSFORMERS_LAYER_S if architecture.experts is None else TRANSFORMERS_EXPERTS_LAYER_S
    four = Between(1.0, 1.0) if update.four_bits is None else FOUR_BITS
    adapter = 0.0 if update.adapter is None else ADAPTER
    passes = Between(layer.least * (four.least + adapter), layer.most * (four.most + adapter))
    return passes.times(architecture.layers)


def together(*parts: Between) -> Between:
    """What goes on beside each other: at best only the longest is felt, at worst each waits for the others."""
    return Between(max(part.least for part in parts), sum(part.most for part in parts))
