"""Adds an adapter to a quantized model without changing the rest of the model.

Defect: TRL 0.22 to 0.25 prepare a quantized model before adding the adapter: unquantized weights are cast to float32
(norms in 0.25), with bf16 embeddings and head to bfloat16, and `gradient_checkpointing` of the arguments is turned off.
No other release does this.
Seen: trl 0.22.0 to 0.25.1 (models/utils.py, prepare_peft_model) against 1.16.0.
Remove when: these releases are no longer supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def before_trainer(value: object, plan: Plan) -> None:
    """Replaces TRL's preparation with the newest release's."""
    from trl.trainer import grpo_trainer

    replace(grpo_trainer, "prepare_peft_model", with_adapter)


def with_adapter(model: Any, peft_config: Any, args: Any) -> Any:
    """Returns the model with its adapter; inputs require gradients if checkpointing needs them."""
    from peft import get_peft_model

    adapted = get_peft_model(model, peft_config)
    if args.gradient_checkpointing:
        adapted.enable_input_require_grads()
    return adapted
