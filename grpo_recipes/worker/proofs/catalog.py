"""The proofs of the first step, in the order in which they are shown. Proofs of movement need a second step."""

from collections.abc import Callable

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs import (
    devices_are_planned,
    generate_draws_from_the_policy,
    gradient_reaches_every_tensor,
    images_are_shown,
    logits_cover_the_completion,
    mask_ends_with_the_completion,
    memory_is_measured,
    padding_changes_no_score,
    precision_is_planned,
    reference_is_not_quantized,
    sampler_is_the_policy,
    world_is_whole,
)
from grpo_recipes.worker.proofs.proof import Proof
from grpo_recipes.worker.proofs.seen import FirstStep

Prove = Callable[[Plan, tuple[FirstStep, ...]], Proof]

FIRST_STEP: tuple[Prove, ...] = (
    world_is_whole.prove,
    logits_cover_the_completion.prove,
    gradient_reaches_every_tensor.prove,
    devices_are_planned.prove,
    precision_is_planned.prove,
    reference_is_not_quantized.prove,
    mask_ends_with_the_completion.prove,
    memory_is_measured.prove,
)
WITH_VLLM: tuple[Prove, ...] = (sampler_is_the_policy.prove,)
WITHOUT_VLLM: tuple[Prove, ...] = (generate_draws_from_the_policy.prove,)
WITH_IMAGES: tuple[Prove, ...] = (images_are_shown.prove,)
WITHOUT_PADDING: tuple[Prove, ...] = (padding_changes_no_score.prove,)


def first_step(plan: Plan) -> tuple[Prove, ...]:
    """Returns the proofs of a run's first step."""
    sampled = WITH_VLLM if plan.arguments.GRPOConfig.get("use_vllm") else WITHOUT_VLLM
    with_images = WITH_IMAGES if any(data.images for data in plan.training_data.values()) else ()
    return FIRST_STEP + (WITHOUT_PADDING if "less_padding" in plan.shims else ()) + sampled + with_images
