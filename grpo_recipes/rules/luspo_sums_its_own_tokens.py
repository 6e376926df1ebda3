"""luspo sums the loss of the tokens that it trains on.

TRL 1.10 sums the masked loss of each token. Older releases multiply the loss of a sequence by its length, which is the
same only if a sequence has a single loss: with importance_sampling_level token, the KL penalty or a mask of single
tokens they average the padding in.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "LOS004"
APPLIES_TO = {"trl": ">=0.28,<1.10"}
# Keys that give each token its own loss, with the value that does not: the key, the value, the section's key.
PER_TOKEN = (
    ("GRPOConfig.importance_sampling_level", "sequence", ("grpo", "importance_sampling_level")),
    ("GRPOConfig.beta", 0.0, ("grpo", "beta")),
    ("GRPOConfig.top_entropy_quantile", 1.0, ("grpo", "top_entropy_quantile")),
)


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.loss_type") != "luspo":
        return
    for key, value, path in PER_TOKEN:
        if context.value(key) == value:
            continue
        yield context.finding(
            f"loss_type luspo with {path[1]} {context.value(key)} averages padding into the loss",
            key,
            because=[f"trl {context.stack.version('trl')} multiplies the loss of each token by the sequence's length"],
            fix=f"{path[1]}: {value}, or trl==1.10.0",
            patch=[Patch(path, value)],
        )
