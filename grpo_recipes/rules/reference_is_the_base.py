"""The reference of the KL term is the model that training started from.

With an adapter TRL keeps no second model: for beta > 0 it switches the adapter off and uses the rest as reference. That
equals the loaded model only if the adapter is the only difference. The initialisations `pissa`, `olora`, `corda` and
`loftq`, and KaSA, move a part of each weight into the adapter. Measured: the logits of an untrained policy and of its
reference then differ, and the KL term pulls the policy towards a damaged model. With `bias: all` or `lora_only` the
biases are trained in the base itself and stay when the adapter is off, so the reference moves with the policy.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "LRA008"
STARTS = ("pissa", "olora", "corda", "loftq")
START, BIAS, KASA = "LoraConfig.init_lora_weights", "LoraConfig.bias", "LoraConfig.kasa_config"


def check(context: Context) -> Iterator[Finding]:
    beta = context.value("GRPOConfig.beta")
    if not context.has_section("lora") or not isinstance(beta, float | int) or beta <= 0:
        return
    start = str(context.value(START)).lower()
    if start.startswith(STARTS):
        because = "it moves a part of each weight into the adapter, and the reference keeps only the rest"
        yield _finding(
            context, START, f"init_lora_weights {start} makes the KL reference differ from the model", because, True
        )
    if context.value(KASA) is not None:
        because = "it removes the smallest components from the weights, and the reference lacks them"
        yield _finding(context, KASA, "kasa_config makes the KL reference differ from the model", because, None)
    if context.value(BIAS) in ("all", "lora_only"):
        because = "TRL switches the adapter off for the reference, and the trained biases stay"
        yield _finding(context, BIAS, f"bias {context.value(BIAS)} also trains the KL reference", because, "none")


def _finding(context: Context, key: str, message: str, because: str, fix: object) -> Finding:
    name = key.partition(".")[2]
    beta = f"beta is {context.value('GRPOConfig.beta')} ({context.origin('GRPOConfig.beta')})"
    way = f"remove {name}" if fix is None else f"{name}: {str(fix).lower()}"
    return context.wrong(message, key, [because, beta], fix, fix=f"{way}, or beta: 0.0")
