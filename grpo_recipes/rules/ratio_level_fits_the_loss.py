"""The loss supports the level of the importance ratio.

importance_sampling_level sequence gives one ratio to all tokens of a completion. The losses bnpo, dapo, dr_grpo and
cispo sum over tokens, so a long completion counts more than a short one: GSPO averages per sequence, which is loss_type
grpo. luspo is defined with one ratio per sequence. vespo computes its own and ignores the level. TRL warns about each,
after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import LOSS, loss_of

ID = "LOS006"
LEVEL = "GRPOConfig.importance_sampling_level"


def check(context: Context) -> Iterator[Finding]:
    name, loss, level = context.value(LOSS), loss_of(context), context.value(LEVEL)
    key = LEVEL if context.is_given(LEVEL) else LOSS
    if level == "sequence" and loss.ratio == "any" and loss.divides_by != "completion":
        message = f"loss_type {name} sums over tokens, but the ratio is per sequence"
        because = "longer completions count more; GSPO averages each sequence"
        yield context.wrong(message, key, because, "grpo", at=context.path(LOSS), severity="warning")
    elif level == "token" and loss.ratio == "sequence":
        message = f"loss_type {name} needs a ratio per sequence, but the level is token"
        because = "TRL warns about this after loading the model"
        yield context.wrong(message, key, because, "sequence", at=context.path(LEVEL), severity="warning")
    elif level == "sequence" and loss.ratio == "own":
        message = f"importance_sampling_level sequence has no effect on loss_type {name}"
        because = f"{name} computes its own ratio per sequence"
        yield context.wrong(message, key, because, "token", at=context.path(LEVEL), severity="warning")
