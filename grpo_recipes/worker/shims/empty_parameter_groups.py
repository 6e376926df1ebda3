"""Drops an optimizer's empty parameter groups, so that DeepSpeed and the schedule count the same groups.

Defect: transformers splits parameters into those with and without weight decay; an adapter has none of the second kind.
DeepSpeed drops the empty group, but the learning rate schedule, created before, has a rate for it. torch then raises
ValueError at the first step: "zip() argument 2 is longer than argument 1".
Seen: transformers 4.48.3 to 4.57.6 with deepspeed 0.16.3, 0.16.9 and 0.19.8, torch 2.13.0.
Remove when: these releases are no longer supported; newer ones create the schedule after DeepSpeed's optimizer.
"""

from collections.abc import Callable
from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Drops empty groups once the optimizer exists, before its schedule is created."""

    def without_empty_groups(create: Callable[..., Any], *given: Any, **named: Any) -> Any:
        optimizer = create(*given, **named)
        optimizer.param_groups = [group for group in optimizer.param_groups if group["params"]]
        return optimizer

    trainer.seams.change("optimizer is created", "groups with parameters", without_empty_groups)
    return "groups without parameters are dropped"
