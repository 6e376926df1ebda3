"""The model's weights are loaded in the planned dtype; adapters and packed 4-bit weights do not count.

With cast_lm_head_to_fp32 the output layer, and an embedding that is tied to it, is in float32 instead.

Catches: weights in a different dtype than the recipe's, before the minutes that a first step takes (PRF006 checks the
same while the loss is computed, when a package or a patch may have cast them).
Source: trl 1.16.0 grpo_trainer.py (model_init_kwargs: `torch_dtype` up to 0.26, `dtype` after).
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF015"
NAME = "dtype of the weights"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The dtypes that were found."""
    if plan.expect.weights_dtype is not None:
        yield Compared("dtype of the weights", plan.expect.weights_dtype, ", ".join(seen.weights))
