"""Disables gradient checkpointing while the policy generates, so that generation can use its cache.

Defect: a checkpointed layer keeps no cache of earlier tokens, but some releases of transformers still pass it only the
newest token: each token is then drawn without the prompt and the earlier completion. TRL disables checkpointing for
generation since 0.22.
Seen: trl 0.15.2 with transformers 4.48.3 (10 of 16 completions differ) and trl 0.21.0 with 4.55.4 (all of them); the
same numbers with 4.49.0, 4.51.3 and 4.52.4.
Remove when: TRL before 0.22 is no longer supported.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Stands around the policy's generate."""

    @contextmanager
    def without_checkpointing() -> Iterator[None]:
        layers = [layer for layer in trainer.model.modules() if getattr(layer, "gradient_checkpointing", False) is True]
        for layer in layers:
            layer.gradient_checkpointing = False
        try:
            yield
        finally:
            for layer in layers:
                layer.gradient_checkpointing = True

    trainer.seams.surround("policy generates", "cache", without_checkpointing)
    return "checkpointing is off while the policy generates"
