"""Gives the adapter of a quantized model the planned dtype.

Defect: the newest TRL trains the adapter of a quantized model in bfloat16, as the QLoRA paper does. Before 0.26 it
stays in float32, so the same recipe rounds its updates differently.
Seen: trl 0.14.0 to 0.25.1 against 1.16.0 (grpo_trainer.py, `_is_quantized_model`).
Remove when: these releases are no longer supported.
"""

from typing import Any

import torch

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Casts the trained tensors, except DoRA's magnitudes. Call it before the optimizer is created."""
    dtype = getattr(torch, str(plan.expect.adapter_dtype))
    names = [
        name
        for name, parameter in trainer.model.named_parameters()
        if parameter.requires_grad and "lora_magnitude_vector" not in name and parameter.dtype != dtype
    ]
    for name in names:
        parameter = trainer.model.get_parameter(name)
        parameter.data = parameter.data.to(dtype)
    return f"{len(names)} tensors to {plan.expect.adapter_dtype}" if names else ""
