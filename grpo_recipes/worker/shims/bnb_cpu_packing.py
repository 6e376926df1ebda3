"""Keeps bitsandbytes from repacking nf4 weights in evaluation mode on AVX512-BF16 processors.

Defect: bitsandbytes on the CPU permanently repacks the weights of a Linear4bit in the first forward that is in
evaluation mode and needs no gradient. Later training forwards use a kernel without backward: with a bias they
fail ("a view of a leaf Variable that requires grad is being used in an in-place operation"), without one the
gradients are silently wrong.
Seen: bitsandbytes 0.50.2 on processors with avx512_bf16. GPUs are not affected.
Remove when: a packed Linear4bit gives the gradients of an unpacked one.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Keeps every Linear4bit of the policy from packing. Call it before the first forward."""
    return f"{keep_unpacked(trainer.model)} layers are not packed"


def keep_unpacked(model: Any) -> int:
    """Keeps every Linear4bit of the model from packing, and returns their number."""
    from bitsandbytes.nn import Linear4bit

    layers = [module for module in model.modules() if isinstance(module, Linear4bit)]
    for layer in layers:
        replace(layer, "support_avx512bf16_for_cpu", False)
    return len(layers)
