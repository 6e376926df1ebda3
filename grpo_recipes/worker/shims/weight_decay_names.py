"""Applies weight decay like the newest release: to all weights except biases and norms.

Defect: transformers used lists of layer classes, which lack most RMS norms, including Qwen2's, and since 4.49 also
names, which miss a norm called `norm`. With weight_decay above 0 those norms shrink, so the same recipe trains
differently.
Seen: transformers 4.46.1 to 4.52.4 (Trainer.get_decay_parameter_names) against 4.53.0 to 5.23.0.
Remove when: these releases are no longer supported.
"""

import re
from typing import Any

from torch import nn

from grpo_recipes.contract.plan import Plan

NOT_DECAYED = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)")


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Gives the trainer the newest release's selection. Call it before the optimizer is created."""
    before = set(trainer.get_decay_parameter_names(trainer.model))
    trainer.seams.change("decayed weights are named", "newest names", lambda _, model: decayed(model))
    count = sum(parameter.requires_grad for name, parameter in trainer.model.named_parameters() if name in before)
    now = set(decayed(trainer.model))
    less = count - sum(parameter.requires_grad for name, parameter in trainer.model.named_parameters() if name in now)
    return f"{less} norms do not decay" if less else ""


def decayed(model: Any) -> list[str]:
    """Returns the names of parameters with weight decay."""
    norms = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, nn.LayerNorm))
    return [
        name
        for name, _ in model.named_parameters()
        if not NOT_DECAYED.search(name.lower()) and not name.startswith(norms)
    ]
