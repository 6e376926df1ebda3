"""Runs the model's forward pass under autocast in training with ZeRO, as accelerate does for DDP.

Defect: under DeepSpeed accelerate does not wrap the model in autocast, and `accelerator.autocast()` does nothing;
DeepSpeed's own torch_autocast covers only passes through its engine, those of the loss. TRL scores completions with the
model itself, and without an adapter transformers generates with it, so float32 weights then compute in float32. The
ratios, the KL term and the samples have a different precision than the loss, and on a GPU scoring takes many times as
long.
Seen: deepspeed 0.17.2 to 0.19.8 with accelerate 1.15.0 (accelerator.py, `prepare_model` and `autocast`).
Remove when: accelerate wraps the model itself under DeepSpeed.
"""

from typing import Any

import torch
from accelerate.utils.operations import convert_outputs_to_fp32

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Wraps the model's forward pass like `Accelerator.prepare_model` does."""
    model, device = trainer.model, trainer.accelerator.device.type
    # A cache would keep a half-precision copy of each weight that ZeRO-3 gathers, until the whole pass ends.
    autocast = torch.autocast(device, getattr(torch, str(value)), cache_enabled=plan.expect.deepspeed_stage != 3)
    replace(model, "forward", convert_outputs_to_fp32(autocast(model.forward)))
    return f"the model is under autocast to {value}, as with DDP"
