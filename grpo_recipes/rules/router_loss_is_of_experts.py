"""A load-balancing loss needs a mixture of experts.

A dense model has no router to balance. Since 1.14, GRPOTrainer raises ValueError for router_aux_loss_coef with a dense
model, after loading it; older releases ignore it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config, not_at_hand

ID = "LOS008"
APPLIES_TO = {"trl": ">=1.14"}
COEFFICIENT = "GRPOConfig.router_aux_loss_coef"
# Families with only dense models, among those that transformers 5.23.0 trains.
DENSE = ("gemma", "gemma2", "gpt2", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3", "smollm3", "stablelm")


def check(context: Context) -> Iterator[Finding]:
    coefficient = context.value(COEFFICIENT)
    if not isinstance(coefficient, int | float) or coefficient == 0:
        return
    config = model_config(context)
    if config is None and context.is_given(COEFFICIENT):
        yield not_at_hand(context, "whether the model has experts", COEFFICIENT)
    kind = config.get("model_type") if config is not None else None
    if config is not None and kind in DENSE and "output_router_logits" not in config:
        because = f"{context.text('model.model_name_or_path')} is a dense {kind}"
        yield context.wrong(f"router_aux_loss_coef {coefficient} needs a mixture of experts", COEFFICIENT, because)
