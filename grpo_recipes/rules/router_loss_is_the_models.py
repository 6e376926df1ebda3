"""A mixture of experts keeps the load-balancing loss of its configuration.

Since TRL 1.14, router_aux_loss_coef null means the model's own coefficient. TRL 1.7 to 1.13 does not accept null and
uses 0.001 by default, and older releases do not have this loss. A dense model never has it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import EXPERTS, model_config

ID = "LOS005"
APPLIES_TO = {"trl": "<1.14"}
COEFFICIENT = "GRPOConfig.router_aux_loss_coef"


def check(context: Context) -> Iterator[Finding]:
    config = model_config(context)
    if context.value(COEFFICIENT) is not None or config is None or not any(config.get(key) for key in EXPERTS):
        return
    own = config.get("router_aux_loss_coef") or 0.0
    has_field = COEFFICIENT.partition(".")[2] in (context.facts.own_fields("GRPOConfig") or {})
    does = "uses 0.001" if has_field else "adds no such loss"
    value = own if has_field else 0.0
    text = f"this TRL ignores the model's router_aux_loss_coef {own}"
    because = f"trl {context.stack.version('trl')} {does} by default; trl 1.14 uses the model's"
    fix = f"trl: {{router_aux_loss_coef: {value}}}, or trl==1.14.2"
    yield context.wrong(text, "model.model_name_or_path", because, value, at=("trl", "router_aux_loss_coef"), fix=fix)
