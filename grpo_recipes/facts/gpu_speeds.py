"""How fast a GPU computes and reads its memory at most, by its maker's datasheet."""

from typing import NamedTuple

from grpo_recipes.facts.released.shipped import table

TABLE = "gpu_speeds"


class GpuSpeed(NamedTuple):
    """Peaks of a GPU, lowest and highest of the forms that its name stands for.

    flops_16, flops_32: dense operations a second in 16 bits on tensor cores, and in float32 without them. bandwidth:
    bytes a second from its memory.
    """

    flops_16: tuple[float, float]
    flops_32: tuple[float, float]
    bandwidth: tuple[float, float]


def gpu_speed(name: str) -> GpuSpeed | None:
    """The speed of a GPU by its name in stack/known_gpus.json; None for one whose datasheet was not read."""
    found = table(TABLE)["gpus"].get(name)
    if found is None:
        return None
    teras = [(found[key][0] * 1e12, found[key][1] * 1e12) for key in ("tflops_16", "tflops_32")]
    return GpuSpeed(teras[0], teras[1], (found["gb_per_s"][0] * 1e9, found["gb_per_s"][1] * 1e9))
