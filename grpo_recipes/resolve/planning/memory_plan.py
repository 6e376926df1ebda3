"""What a plan says of the memory of its GPUs."""

from grpo_recipes.contract.planned_memory import PlannedMemory
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.memory_needs import memory_needs


def planned_memory(context: Context) -> PlannedMemory:
    """The estimate of checked settings, "unknown" with its reason for what is not covered."""
    needs = memory_needs(context)
    if isinstance(needs, str):
        return PlannedMemory("unknown", unknown=needs)
    found = needs.estimate()
    return PlannedMemory(found.verdict(), found.by_phase(), found.gpu_bytes, needs.assumed, found.unknown)
