"""Sets the size of the stages' trainings: full size for a GPU, and smaller versions for the CPU."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Device = Literal["cuda", "cpu"]


class Shape(NamedTuple):
    """The sizes of a Qwen2 model."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    tied: bool
    vocabulary: int = 151_936

    @property
    def parameters(self) -> int:
        """Returns the number of parameters."""
        kv = self.hidden * self.kv_heads // self.heads
        attention = 2 * self.hidden * self.hidden + 2 * self.hidden * kv + self.hidden + 2 * kv
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden


# Source: config.json of Qwen/Qwen2.5-0.5B, -1.5B, -3B, -7B and -14B.
SHAPES = {
    "0.5B": Shape(896, 4864, 24, 14, 2, True),
    "1.5B": Shape(1536, 8960, 28, 12, 2, True),
    "3B": Shape(2048, 11008, 36, 16, 2, True),
    "7B": Shape(3584, 18944, 28, 28, 4, False, 152_064),
    "14B": Shape(5120, 13824, 48, 40, 8, False, 152_064),
    "tiny": Shape(64, 128, 2, 4, 2, True, 512),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """The size at which a stage trains."""

    device: Device

    @property
    def is_small(self) -> bool:
        """Whether figures say nothing about speed and memory."""
        return self.device == "cpu"

    def size(self, name: str) -> str:
        """Returns the model to use for one of this size."""
        return "tiny" if self.is_small else name

    def tokens(self, count: int) -> int:
        """Returns the completion length to use for one of this many tokens on a GPU."""
        return min(count, 8) if self.is_small else count

    def prompts(self, count: int) -> int:
        """Returns the prompts per step to use for this many on a GPU."""
        return min(count, 4) if self.is_small else count

    def times(self, count: int, small: int) -> int:
        """Returns how often to do something, with a smaller count for the CPU."""
        return small if self.is_small else count
