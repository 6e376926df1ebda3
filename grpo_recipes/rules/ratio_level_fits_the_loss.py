"""The importance ratio is of the level that the loss is made for.

importance_sampling_level sequence gives one ratio to all tokens of a completion. The losses bnpo, dapo, dr_grpo and
cispo add up tokens, so that a long completion counts for more than a short one: GSPO averages per sequence, which is
loss_type grpo. luspo is defined with one ratio per sequence. vespo computes its own and reads no level. TRL warns of
each after the model was loaded.
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
            f"loss_type {loss} adds up tokens, and the ratio is of the sequence",
            "a completion counts by its length; GSPO averages each sequence",
            Patch(("grpo", "loss_type"), "grpo"),
        )
    elif level == "token" and loss == "luspo":
        yield _warning(
            context,
            "loss_type luspo is defined with the ratio of the sequence, here it is the token's",
            "TRL warns of it after the model was loaded",
            Patch(("grpo", "importance_sampling_level"), "sequence"),
        )
    elif level == "sequence" and loss == "vespo":
        yield _warning(
            context,
            "importance_sampling_level sequence has no effect on loss_type vespo",
            "vespo computes the ratio of the sequence itself",
            Patch(("grpo", "importance_sampling_level"), "token"),
        )


def _warning(context: Context, message: str, because: str, patch: Patch) -> Finding:
    key = LEVEL if context.given(LEVEL) else LOSS
    fix = f"{patch.path[-1]}: {patch.value}"
    return context.finding(ID, message, key, because=[because], fix=fix, patch=[patch], severity="warning")
