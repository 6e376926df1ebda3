"""The loss is made for the level of the importance ratio.

importance_sampling_level sequence gives one ratio to all tokens of a completion. The losses bnpo, dapo, dr_grpo and
cispo sum over tokens, so a long completion counts more than a short one: GSPO averages per sequence, which is loss_type
grpo. luspo is defined with one ratio per sequence. vespo computes its own and ignores the level. TRL warns about each,
after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import LOSS, loss_of

ID = "LOS006"
LEVEL = "GRPOConfig.importance_sampling_level"


def check(context: Context) -> Iterator[Finding]:
    name, loss, level = context.value(LOSS), loss_of(context), context.value(LEVEL)
    if level == "sequence" and loss.ratio == "any" and loss.divides_by != "completion":
        yield _warning(
            context,
            f"loss_type {name} sums over tokens, but the ratio is per sequence",
            "longer completions count more; GSPO averages each sequence",
            Patch(("grpo", "loss_type"), "grpo"),
        )
    elif level == "token" and loss.ratio == "sequence":
        yield _warning(
            context,
            f"loss_type {name} needs a ratio per sequence, but the level is token",
            "TRL warns about it after loading the model",
            Patch(("grpo", "importance_sampling_level"), "sequence"),
        )
    elif level == "sequence" and loss.ratio == "own":
        yield _warning(
            context,
            f"importance_sampling_level sequence has no effect on loss_type {name}",
            f"{name} computes its own ratio per sequence",
            Patch(("grpo", "importance_sampling_level"), "token"),
        )


def _warning(context: Context, message: str, because: str, patch: Patch) -> Finding:
    key = LEVEL if context.given(LEVEL) else LOSS
    return context.finding(message, key, because, patch=[patch], severity="warning")
