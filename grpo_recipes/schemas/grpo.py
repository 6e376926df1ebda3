"""`grpo`: the algorithm."""

from typing import Annotated

from pydantic import Field

from grpo_recipes.schemas.section import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    Section,
)


class GrpoSection(Section):
    """The algorithm. Values that are TRL's own words are checked against the target's source."""

    num_generations: Annotated[int, Field(ge=2)] = 8
    """Completions per prompt, the group in which rewards are compared."""
    beta: NonNegativeFloat = 0.0
    """Weight of the KL penalty against the reference model. 0: no penalty and no reference model."""
    loss_type: str = Field(default="dapo", examples=["dapo", "grpo", "bnpo", "dr_grpo"])
    """Normalization of the loss: grpo averages per sequence, dapo over the batch's tokens, dr_grpo by a constant. bnpo
    averages over a micro-batch's tokens, so unless the batch is one piece it needs training.cut.
    """
    scale_rewards: str | bool = Field(default="group", examples=["group", "batch", "none"])
    """Divide advantages by the standard deviation of the group or the batch, or not at all (none)."""
    epsilon: PositiveFloat = 0.2
    """Lower clipping bound of the importance ratio."""
    epsilon_high: PositiveFloat | None = None
    """Upper clipping bound. null: the same as epsilon."""
    delta: PositiveFloat | None = None
    """Second upper bound for negative advantages (two-sided clipping). null: none."""
    num_iterations: PositiveInt = 1
    """Passes over each generation batch."""
    optimizer_steps_per_generation: PositiveInt = 1
    """Optimizer steps that one generation batch feeds. Above 1 the later ones are off-policy."""
    importance_sampling_level: str = Field(default="token", examples=["token", "sequence"])
    """Importance ratio per token or per sequence (GSPO)."""
    mask_truncated_completions: bool = False
    """Exclude completions that reach max_completion_length from the loss."""
    top_entropy_quantile: PositiveFraction = 1.0
    """Train only on this share of the tokens, those with the highest entropy. 1 trains on all. It compares the
    entropies within a micro-batch, so unless the batch is one piece it needs training.cut.
    """
    use_bias_correction_kl: bool = True
    """Correct the KL estimate for off-policy samples; matters only with beta above 0."""
    multi_objective_aggregation: str = Field(
        default="sum_then_normalize", examples=["sum_then_normalize", "normalize_then_sum"]
    )
    """Weight and sum several rewards before or after they are normalized in the group."""
