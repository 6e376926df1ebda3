"""Hands the weights to a vLLM server before the first generation.

Defect: the trainer counts the step at which it handed them over last, and begins to count at 0: at the first step it
believes that the server has them. Another run may have left others there.
Seen: trl 0.16.1 grpo_trainer.py, `_last_loaded_step = 0`; 0.17.0 begins at -1.
Remove when: TRL 0.16 is no longer supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Says that no step's weights were handed over yet."""
    trainer._last_loaded_step = -1
    return "weights are handed over before the first generation"
