"""What the memory of a run depends on."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.memory.estimate import MemoryEstimate, estimate
from grpo_recipes.memory.layout import Layout
from grpo_recipes.memory.update import Update


class MemoryNeeds(NamedTuple):
    """What the memory of a run depends on. gpu_bytes: of its smallest GPU. assumed: what the recipe does not say."""

    config: Mapping[str, object] | None
    update: Update
    layout: Layout
    gpu_bytes: int | None
    assumed: tuple[str, ...]

    def estimate(self) -> MemoryEstimate:
        """What each GPU holds, phase by phase."""
        return estimate(self.config, self.update, self.layout, self.gpu_bytes)
