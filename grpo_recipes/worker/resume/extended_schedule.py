"""An extended run uses the learning rate of its new length from its first step.

A checkpoint has the learning rate of the step after it, under the schedule of the old length: a linear one ends at 0,
so the first step of the longer run would train nothing. Only later steps use the new schedule. Seen: transformers
5.23.0, torch 2.13.0, whose schedulers do not recompute the rate when their state is loaded.
"""

from typing import Any

from transformers import TrainerCallback


class ScheduleOfTheNewLength(TrainerCallback):  # type: ignore[misc]
    """Sets the learning rate to the new schedule's, after optimizer and schedule were loaded."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sets the learning rate; the state is already the checkpoint's."""
        scheduler = getattr(self._trainer.lr_scheduler, "scheduler", self._trainer.lr_scheduler)
        factors = getattr(scheduler, "lr_lambdas", None)
        if factors is None:
            return  # this schedule follows a measured value, not a length
        rates = [base * factor(scheduler.last_epoch) for base, factor in zip(scheduler.base_lrs, factors, strict=True)]
        for group, rate in zip(scheduler.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        scheduler._last_lr = rates
