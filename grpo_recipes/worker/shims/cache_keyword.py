"""Passes a model with its own code the cache of earlier tokens under the name that it knows.

Defect: transformers 5.24 renames `past_key_values` to `cache`, and generate passes the new name alone. The classes of
transformers take both until 5.40. A class next to the weights that takes `past_key_values` and other keywords swallows
the new one: after the first token it gets one token at a time and no cache, so it draws each without the prompt and the
completion so far. Without other keywords it raises TypeError.
Seen: trl 1.16.0 with transformers 5.24.0, the quickstart's weights behind such a class: held-out reward 0.0062 instead
of 0.9035 after 4 steps. PRF038 stops such a run before its first optimizer step.
Remove when: transformers before 5.24 is no longer supported, so that models have to take `cache`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from transformers import GenerationMixin

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import base_model, set_forward

NEW, OLD = "cache", "past_key_values"
METHODS = ("forward", "prepare_inputs_for_generation")


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Renames the keyword for the policy, unless it takes the new one."""
    policy = base_model(trainer, trainer.model)
    renamed = pass_by_old_name(policy)
    name = type(policy).__name__
    return f"{', '.join(renamed)} of {name} get cache as past_key_values" if renamed else f"{name} takes cache"


def pass_by_old_name(model: Any) -> list[str]:
    """Makes a model's methods that know the old name alone take both; returns their names.

    Does nothing on releases that pass the old name.
    """
    if NEW not in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters:
        return []
    renamed = [name for name in METHODS if _knows_old_name_alone(getattr(model, name))]
    for name in renamed:
        set_forward(model, _with_old_name(getattr(model, name)), name)
    return renamed


def _knows_old_name_alone(method: Callable[..., Any]) -> bool:
    names = inspect.signature(method).parameters
    return OLD in names and NEW not in names


def _with_old_name(method: Callable[..., Any]) -> Callable[..., Any]:
    def with_old_name(_: Any, *given: Any, **named: Any) -> Any:
        if NEW in named:
            named[OLD] = named.pop(NEW)
        return method(*given, **named)

    return with_old_name
