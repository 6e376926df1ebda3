"""A resumed run continues with the next row, even after its first epoch.

TRL's sampler draws the order of each epoch from its own generator, whose state is in no checkpoint: a run resumed in
its second epoch reads the rows in the order of the first, some twice and some never. Seen: trl 0.15.2 to 1.16.0
with transformers 4.48.3 to 5.23.0.
"""

from typing import Any

from transformers import TrainerCallback


class ResumedEpochs(TrainerCallback):  # type: ignore[misc]
    """Draws the orders of the earlier epochs before the resumed run reads its first row."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampler: Any = None
        trainer.seams.observe("prompts are ordered", "resumed epochs", self._remember)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Draws them; the state is already the checkpoint's, and the sampler exists."""
        for _ in range(int(state.epoch or 0)):
            next(iter(self._sampler))

    def _remember(self, sampler: Any, *_: Any) -> None:
        self._sampler = sampler
