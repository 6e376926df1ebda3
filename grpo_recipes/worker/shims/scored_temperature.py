"""Scores completions at the temperature at which they are sampled.

Defect: TRL before 0.16 samples at the temperature but ignores it in the log-probs, so its loss is computed for a
different policy than the one that wrote the completions.
Seen: trl 0.14.0 compute_loss and 0.15.2 `_get_per_token_logps`; 0.16.0 divides the logits there.
Remove when: TRL below 0.16 is no longer supported.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import base_model, set_forward


class _Scoring:
    """Remembers whether the policy's forward currently scores completions rather than generating them."""

    is_on = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the logits unchanged while the policy generates, which divides them itself."""
        self.is_on = False
        try:
            yield
        finally:
            self.is_on = True


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Divides the logits of policy and reference model by the temperature, except while the policy generates."""
    temperature, scoring = float(str(value)), _Scoring()
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            _divide(base_model(trainer, model), temperature, scoring)
    trainer.seams.surround("policy generates", "unscored", scoring.paused)
    return f"log-probs at temperature {temperature:g}"


def _divide(model: Any, temperature: float, scoring: _Scoring) -> None:
    """Makes the model's forward divide its logits by the temperature."""
    forward = model.forward

    def scored(self: Any, *given: Any, **named: Any) -> Any:
        output = forward(*given, **named)
        if scoring.is_on:
            output.logits = output.logits / temperature
        return output

    set_forward(model, scored)
