"""The loss is made for the level of the importance ratio.

importance_sampling_level sequence gives one ratio to all tokens of a completion. The losses bnpo, dapo, dr_grpo and
cispo sum over tokens, so a long completion counts more than a short one: GSPO averages per sequence, which is loss_type
grpo. luspo is defined with one ratio per sequence. vespo computes its own and ignores the level. TRL warns about each,
after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "LOS006"
LOSS, LEVEL = "GRPOConfig.loss_type", "GRPOConfig.importance_sampling_level"
ADDS_UP_TOKENS = ("bnpo", "dapo", "dr_grpo", "cispo")


def check(context: Context) -> Iterator[Finding]:
    loss, level = context.value(LOSS), context.value(LEVEL)
    if level == "sequence" and loss in ADDS_UP_TOKENS:
        yield _warning(
            context,
            f"loss_type {loss} sums over tokens, but the ratio is per sequence",
            "longer completions count more; GSPO averages each sequence",
            Patch(("grpo", "loss_type"), "grpo"),
        )
    elif level == "token" and loss == "luspo":
        yield _warning(
            context,
            "loss_type luspo needs a ratio per sequence, but the level is token",
            "TRL warns about it after loading the model",
            Patch(("grpo", "importance_sampling_level"), "sequence"),
        )
    elif level == "sequence" and loss == "vespo":
        yield _warning(
            context,
            "importance_sampling_level sequence has no effect on loss_type vespo",
            "vespo computes its own ratio per sequence",
            Patch(("grpo", "importance_sampling_level"), "token"),
        )


def _warning(context: Context, message: str, because: str, patch: Patch) -> Finding:
    key = LEVEL if context.given(LEVEL) else LOSS
    return context.finding(message, key, because=[because], patch=[patch], severity="warning")
