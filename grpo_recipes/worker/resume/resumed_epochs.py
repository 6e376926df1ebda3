"""A resumed run reads on where it was, also beyond its first epoch.

TRL's sampler draws the order of each epoch from a generator of its own, which no checkpoint holds: a run that is
resumed in its second epoch reads the rows in the order of the first one, some twice and some never.
Seen: trl 0.15.2 to 1.16.0 with transformers 4.48.3 to 5.23.0.
"""

from typing import Any

from transformers import TrainerCallback


class ResumedEpochs(TrainerCallback):  # type: ignore[misc]
    """Draws the orders of the epochs that lie behind a resumed run, before it reads its first row."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampler: Any = None
        self._sampler_of = trainer._get_train_sampler
        trainer._get_train_sampler = self._remembered

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The state is that of the checkpoint by now, and the sampler is made."""
        for _ in range(int(state.epoch or 0)):
            next(iter(self._sampler))

    def _remembered(self, *given: Any) -> Any:
        self._sampler = self._sampler_of(*given)
        return self._sampler
