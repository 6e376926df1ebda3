"""The proofs of the first step, in the order in which they are shown. That of movement needs a second step."""

from collections.abc import Callable

from grpo_recipes.worker.planned import Plan
from grpo_recipes.worker.proofs import (
    devices_are_planned,
    gradient_reaches_every_tensor,
    logits_cover_the_completion,
    mask_ends_with_the_completion,
    memory_is_measured,
    precision_is_planned,
    reference_is_not_quantized,
    world_is_whole,
)
from grpo_recipes.worker.proofs.proof import Proof
from grpo_recipes.worker.proofs.seen import Seen

FIRST_STEP: tuple[Callable[[Plan, tuple[Seen, ...]], Proof], ...] = (
    world_is_whole.prove,
    logits_cover_the_completion.prove,
    gradient_reaches_every_tensor.prove,
    devices_are_planned.prove,
    precision_is_planned.prove,
    reference_is_not_quantized.prove,
    mask_ends_with_the_completion.prove,
    memory_is_measured.prove,
)
