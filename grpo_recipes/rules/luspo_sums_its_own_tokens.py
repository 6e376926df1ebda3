"""luspo sums the loss of the tokens that it trains on.

TRL 1.10 sums the masked loss of each token. Older releases multiply the loss of a sequence by its length, which is the
same only if a sequence has a single loss: with importance_sampling_level token, the KL penalty or a mask of single
tokens they average the padding in.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "LOS004"
APPLIES_TO = {"trl": ">=0.28,<1.10"}
# Keys that give each token its own loss, with the value that does not.
PER_TOKEN = {"importance_sampling_level": "sequence", "beta": 0.0, "top_entropy_quantile": 1.0}


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.loss_type") != "luspo":
        return
    for name, value in PER_TOKEN.items():
        key = f"GRPOConfig.{name}"
        if context.value(key) == value:
            continue
        message = f"loss_type luspo with {name} {context.value(key)} averages padding into the loss"
        because = f"trl {context.stack.version('trl')} multiplies the loss of each token by the sequence's length"
        yield context.wrong(message, key, because, value, fix=f"{name}: {value}, or trl==1.10.0")
