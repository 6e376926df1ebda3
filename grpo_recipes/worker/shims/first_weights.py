"""Sends the weights to a vLLM server before the first generation.

Defect: the trainer remembers the step of its last weight sync, starting with 0, so at the first step it assumes that
the server is up to date. An earlier run may have left other weights there.
Seen: trl 0.16.1 grpo_trainer.py, `_last_loaded_step = 0`; 0.17.0 starts with -1.
Remove when: TRL 0.16 is no longer supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Marks that no step's weights have been sent yet."""
    trainer._last_loaded_step = -1
    return "weights are handed over before the first generation"
