"""What each loss type of GRPO divides by and reads, for the rules that judge it.

Source: trl, trainer/grpo_trainer.py: GRPOTrainer._compute_loss.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import EXPERTS, MODEL, model_config

LOSS, QUANTILE = "GRPOConfig.loss_type", "GRPOConfig.top_entropy_quantile"
EPSILON, HIGH, DELTA = "GRPOConfig.epsilon", "GRPOConfig.epsilon_high", "GRPOConfig.delta"
BONUS = ("GRPOConfig.entropy_coef", "GRPOConfig.use_adaptive_entropy")
"""Keys that add a mean over the tokens of each micro-batch to the loss, the bonus for entropy."""
ROUTER = "GRPOConfig.router_aux_loss_coef"


class Loss(NamedTuple):
    """A loss type.

    divides_by: the number that the sum over tokens is divided by: the tokens of each completion, those of a micro-batch
    or of an optimizer step, or a constant. ratio: the level of importance ratio that it is made for; own: it ignores
    importance_sampling_level. bounds: the clipping bounds that it reads.
    """

    divides_by: Literal["completion", "micro-batch", "step", "constant"]
    ratio: Literal["any", "sequence", "own"] = "any"
    bounds: tuple[str, ...] = (EPSILON, HIGH, DELTA)


LOSSES = {
    "grpo": Loss("completion"),
    "bnpo": Loss("micro-batch"),
    "dr_grpo": Loss("constant"),
    "dapo": Loss("step"),
    "cispo": Loss("step", bounds=(HIGH,)),
    "sapo": Loss("completion", bounds=()),
    "luspo": Loss("completion", ratio="sequence"),
    "vespo": Loss("step", ratio="own", bounds=()),
}


def loss_of(context: Context) -> Loss:
    """The loss of the recipe. An unknown loss is judged like grpo, which no rule objects to."""
    return LOSSES.get(str(context.value(LOSS)), LOSSES["grpo"])


WHOLE: Mapping[str, object] = {LOSS: "dapo", QUANTILE: 1.0}
"""Keys that depend on how the batch is cut, each with the value that does not."""


def depends_on_the_cut(context: Context) -> str | None:
    """The key of a value whose gradient depends on how the batch is cut, None without one."""
    if loss_of(context).divides_by == "micro-batch":
        return LOSS
    return QUANTILE if context.value(QUANTILE) != 1 else None


def entropy_bonus(context: Context) -> str | None:
    """The key that asks for a bonus for entropy, None without one."""
    return next((key for key in BONUS if context.value(key)), None)


def depends_at_all_on_the_cut(context: Context) -> str | None:
    """The key of a loss, or of a term of it, whose gradient depends on the cut, however little; None without one.

    The bonus for entropy and the loss of a router are means over the tokens of a micro-batch. They depend on the cut as
    little as their coefficients.
    """
    key = depends_on_the_cut(context) or entropy_bonus(context)
    if key is not None or context.value(ROUTER) == 0 or context.value(MODEL) is None:
        return key
    return ROUTER if any((model_config(context) or {}).get(key) for key in EXPERTS) else None
